// Who turns inner frames into masks: a decompression engine, our own kernels, the CPU. Whoever uses one sees no difference but
// these two: what a decoder wants to find in a slot, and whether its word is enough.
#pragma once

#include <memory>
#include <span>
#include <string_view>

#include "backend/cuda/mask/frame_on_device.h"
#include "base/status.h"

struct CUstream_st;  // what cudaStream_t points to; CUDA's headers are not needed here

namespace xorbit::cuda {

using StreamHandle = CUstream_st*;

// Consecutive frames, to be decoded into one slot.
struct DecodeJob {
  InnerKind kind;
  std::span<const FrameOnDevice> frames;  // on the host
  const FrameOnDevice* frames_dev;        // the same
  uint32_t* decoded_bytes_dev;            // of each; kNotDecoded before
  FrameState* states_dev;                 // of each; decoding_error is kNone before
  uint8_t* slot_dev;
  uint32_t* groups_dev;  // of the slot: a word for each kGroupWordBytes; zero before for those that mark groups
  bool fills_masks;      // all groups are to be written, by those that mark them too
  uint32_t most_blocks;  // of a launch; 0: as many as it likes
  StreamHandle stream;
};

// One thread at a time.
class FrameDecoder {
 public:
  FrameDecoder() = default;
  FrameDecoder(const FrameDecoder&) = delete;
  FrameDecoder& operator=(const FrameDecoder&) = delete;
  virtual ~FrameDecoder() = default;

  virtual std::string_view name() const = 0;
  // It writes and marks some groups of each frame, and the others count as zero; otherwise it writes all of them.
  virtual bool marks_groups() const = 0;
  // It may write wrong bytes and not know: masks are compared with what pre-flight saw before they are used.
  virtual bool needs_proof() const = 0;
  // Puts the work into the stream. In stream order, each frame's mask is in the slot and its length in decoded_bytes, or, if
  // that is any other number than its length, the frame has failed. Whatever the frames' bytes say, nothing else is written. On
  // failure of the call some frames may have been decoded. Frames' bytes are left as they are and must stay until then.
  virtual Status Submit(const DecodeJob& job) = 0;
};

}  // namespace xorbit::cuda
