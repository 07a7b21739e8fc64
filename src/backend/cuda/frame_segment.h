// The order of work by which a device encodes a segment's mask in frames, and what the host does around it: the grid, halves
// where a digest does not tell old from new, records, hashes, the outer stage. docs/formats/mask-codecs.md.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "backend/cuda/frame_tasks.h"
#include "codec/codec.h"
#include "tensor/segment.h"

namespace xorbit::cuda {

// The form of a codec's inner frames; nothing for codecs that a device does not encode in frames.
std::optional<FrameForm> FrameFormOf(CodecId codec);

// Every frame of a segment's grid, ascending. `frame_bytes` as EncodeOptions has them.
std::vector<SendFrame> PlanSendFrames(const SegmentMap& map, uint64_t frame_bytes);

// What a device does, once a segment's changes lie in order. Calls that read wait for all before them.
class FrameStages {
 public:
  FrameStages() = default;
  FrameStages(const FrameStages&) = delete;
  FrameStages& operator=(const FrameStages&) = delete;
  virtual ~FrameStages() = default;

  // Looks at these frames, some of which may have no change.
  virtual Result<std::vector<FrameSurvey>> Survey(std::span<const SendFrame> frames) = 0;
  // Writes the frames that were surveyed last, at the offsets that they have now; `inner_bytes` in all.
  virtual Status Write(std::span<const SendFrame> frames, uint64_t inner_bytes) = 0;
};

// What stands ready on the device: frames with changes, and their inner stream.
struct SentFrames {
  std::vector<SendFrame> frames;
  std::vector<FrameSurvey> surveys;  // parallel
  uint64_t inner_bytes = 0;
};

Result<SentFrames> EncodeFrames(std::vector<SendFrame> frames, FrameStages* stages);

// As the payload writer takes it: the CPU's bytes. `inner` is the whole inner stream. Hashes and outer Zstd on options.threads.
Result<EncodedSegment> ToEncodedSegment(const SentFrames& sent, CodecId codec, ConstBytes inner, const EncodeOptions& options);

}  // namespace xorbit::cuda
