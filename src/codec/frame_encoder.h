// Encodes a stretch of frames: collects each frame's changes from the windows of a change source, weighs them, and lets the
// inner codec write them. One thread's work; mask_encoder.cc puts stretches together.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "change/change_source.h"
#include "codec/change_digest.h"
#include "codec/mask_format.h"
#include "codec/mask_frames.h"
#include "codec/mask_inner.h"

namespace xorbit {

// Frames of one stretch. inner_offset counts from the stretch's own first byte.
struct EncodedStretch {
  std::vector<FrameRecord> frames;
  std::vector<Buffer> inner;  // inner frames end to end, in pieces
  uint64_t inner_bytes = 0;
  uint64_t change_count = 0;
  ChangeDigest digest;
};

// Memory that one thread needs while it encodes a stretch; reused from stretch to stretch of the same job.
struct FrameScratch {
  WindowChanges window;
  // Changes of the frame being collected, offsets from its first element.
  std::vector<uint32_t> offsets;
  std::vector<uint8_t> xors;
  std::vector<uint8_t> olds;  // empty without values
  // Their non-zero bytes, for units of several bytes.
  std::vector<uint32_t> byte_positions;
  std::vector<uint8_t> byte_values;
  // Where the inner codec writes, uninitialised: its worst case is twenty times what sparse frames take.
  std::unique_ptr<uint8_t[]> target;
  Buffer mask;
};

// What all stretches of a segment share. The pointees must outlive the work.
struct FrameJob {
  const InnerCodec* inner = nullptr;
  const SegmentMap* map = nullptr;
  std::span<const uint64_t> tensor_keys;
  const ChangeSource* source = nullptr;
  uint64_t frame_elements = 0;
  int zstd_level = 0;
};

std::unique_ptr<FrameScratch> MakeFrameScratch(const FrameJob& job);

// Thread-safe with a scratch for each thread. Fails if the source or a library does, or if a change cannot be told from no
// change by its digest.
Result<EncodedStretch> EncodeStretch(const FrameJob& job, const ElementRange& stretch, FrameScratch* scratch);

}  // namespace xorbit
