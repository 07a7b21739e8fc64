#include "backend/cuda/mask/inner_staging.h"

#include <algorithm>
#include <string>

#include "base/checked_math.h"
#include "base/parallel.h"
#include "base/xxh3.h"
#include "codec/mask_format.h"
#include "codec/zstd_frame.h"

namespace xorbit::cuda {
namespace {

uint64_t RoomOf(const FrameSegment& segment) { return DivideRoundUp(segment.inner_bytes, kInnerAlignment) * kInnerAlignment; }

// One chunk of a segment's inner stream, which is its body where there is no outer stage.
Status StageChunk(const EncodedSegmentView& view, uint64_t index, MutableBytes stream) {
  const MutableBytes target =
      stream.subspan(index * kOuterChunkBytes, std::min(kOuterChunkBytes, stream.size() - index * kOuterChunkBytes));
  if (view.outer.empty()) {
    std::ranges::copy(view.body.subspan(index * kOuterChunkBytes, target.size()), target.begin());
    return {};
  }
  const auto record = LoadLe<OuterRecord>(view.outer.data() + index * sizeof(OuterRecord));
  return DecompressZstdFrame(view.body.subspan(record.offset, record.encoded_bytes), target)
      .WithContext("outer chunk " + std::to_string(index));
}

Status CheckHashes(const FrameSegment& segment, int threads, ConstBytes stream) {
  constexpr uint64_t kFramesAtOnce = 64;
  const uint64_t count = segment.decoder->record_count();
  return ParallelFor(threads, DivideRoundUp(count, kFramesAtOnce), [&](uint64_t item) -> Status {
    for (uint64_t i = item * kFramesAtOnce; i < std::min(count, (item + 1) * kFramesAtOnce); ++i) {
      const FrameRecord record = segment.decoder->frame(i);
      if (Xxh3Hash64Of(stream.subspan(record.inner_offset, record.inner_bytes)) != record.inner_hash) {
        return CorruptError("frame " + std::to_string(i) + " does not match its hash");
      }
    }
    return {};
  });
}

}  // namespace

uint64_t InnerStagingBytes(const MaskPlan& plan) {
  uint64_t byte_count = 0;
  for (const FrameSegment& segment : plan.segments) byte_count += RoomOf(segment);
  return byte_count;
}

Status StageInner(const MaskPlan& plan, int threads, MutableBytes target) {
  uint64_t at = 0;
  for (const FrameSegment& segment : plan.segments) {
    const MutableBytes stream = target.subspan(at, segment.inner_bytes);
    XORBIT_RETURN_IF_ERROR(ParallelFor(threads, DivideRoundUp(stream.size(), kOuterChunkBytes),
                                       [&](uint64_t index) { return StageChunk(segment.view, index, stream); }));
    XORBIT_RETURN_IF_ERROR(CheckHashes(segment, threads, stream));
    at += RoomOf(segment);
  }
  return {};
}

void PlaceInner(const uint8_t* target, MaskPlan* plan) {
  for (const FrameSegment& segment : plan->segments) {
    for (uint64_t i = 0; i < segment.decoder->record_count(); ++i) {
      plan->frames[segment.first_frame + i].inner = target + segment.decoder->frame(i).inner_offset;
    }
    target += RoomOf(segment);
  }
}

}  // namespace xorbit::cuda
