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

uint64_t PaddedToVector(uint64_t byte_count) { return DivideRoundUp(byte_count, kInnerAlignment) * kInnerAlignment; }

uint64_t RoomOf(const FrameSegment& segment) { return PaddedToVector(segment.inner_bytes); }

// The bytes behind a stream, which are read with its last vector.
void ClearPadding(MutableBytes padded, uint64_t byte_count) { std::ranges::fill(padded.subspan(byte_count), uint8_t{0}); }

// Chunk `index` of a segment's inner stream, which is its body where there is no outer stage.
Status StageChunk(const EncodedSegmentView& view, uint64_t index, MutableBytes target) {
  if (view.outer.empty()) {
    std::ranges::copy(view.body.subspan(index * kOuterChunkBytes, target.size()), target.begin());
    return {};
  }
  const auto record = LoadLe<OuterRecord>(view.outer.data() + index * sizeof(OuterRecord));
  return DecompressZstdFrame(view.body.subspan(record.offset, record.encoded_bytes), target)
      .WithContext("outer chunk " + std::to_string(index));
}

// Bytes of the stream from `begin` on, which a chunk starts at.
Status StageChunks(const EncodedSegmentView& view, uint64_t begin, int threads, MutableBytes target) {
  return ParallelFor(threads, DivideRoundUp(target.size(), kOuterChunkBytes), [&](uint64_t i) {
    const uint64_t at = i * kOuterChunkBytes;
    return StageChunk(view, begin / kOuterChunkBytes + i, target.subspan(at, std::min(kOuterChunkBytes, target.size() - at)));
  });
}

// A stretch of the stream, which holds the frames [frame_begin, frame_end) whole.
struct FrameStretch {
  ConstBytes bytes;
  uint64_t begin;  // of `bytes`, in the stream
  uint64_t frame_begin;
  uint64_t frame_end;
};

Status CheckHashes(const FrameSegment& segment, const FrameStretch& stretch, int threads) {
  constexpr uint64_t kFramesAtOnce = 16;
  return ParallelFor(threads, DivideRoundUp(stretch.frame_end - stretch.frame_begin, kFramesAtOnce),
                     [&](uint64_t item) -> Status {
                       const uint64_t begin = stretch.frame_begin + item * kFramesAtOnce;
                       for (uint64_t i = begin; i < std::min(stretch.frame_end, begin + kFramesAtOnce); ++i) {
                         const FrameRecord record = segment.decoder->frame(i);
                         if (Xxh3Hash64Of(stretch.bytes.subspan(record.inner_offset - stretch.begin, record.inner_bytes)) !=
                             record.inner_hash) {
                           return CorruptError("frame " + std::to_string(i) + " does not match its hash");
                         }
                       }
                       return {};
                     });
}

// The longest beginning of a frame that a piece may leave to the next one.
uint64_t CarryRoom(const MaskPlan& plan) {
  uint64_t most = 0;
  for (const FrameOnDevice& frame : plan.frames) most = std::max<uint64_t>(most, frame.inner_bytes);
  return PaddedToVector(most);
}

// Where the first `frame_count` frames end, in the stream.
uint64_t EndOf(const FrameSegment& segment, uint64_t frame_count) {
  if (frame_count == 0) return 0;
  const FrameRecord record = segment.decoder->frame(frame_count - 1);
  return record.inner_offset + record.inner_bytes;
}

// A frame is hashed in the buffer that holds its end; of one that a piece cuts, the beginning is carried there, before the next
// piece.
Status StageSegmentByPieces(const FrameSegment& segment, const InnerStaging& staging, uint64_t piece_bytes, uint64_t carry_room,
                            uint64_t offset, InnerPieces* pieces) {
  FrameStretch stretch{{}, 0, 0, 0};
  for (uint64_t begin = 0; begin < segment.inner_bytes; begin += piece_bytes) {
    const uint64_t end = std::min(segment.inner_bytes, begin + piece_bytes);
    const uint64_t carried_from = EndOf(segment, stretch.frame_end);
    const ConstBytes carried = stretch.bytes.subspan(carried_from - stretch.begin);
    XORBIT_ASSIGN_OR_RETURN(const MutableBytes buffer, pieces->Next());
    std::ranges::copy(carried, buffer.subspan(carry_room - carried.size()).begin());
    const MutableBytes padded = buffer.subspan(carry_room, PaddedToVector(end - begin));
    const MutableBytes piece = padded.first(end - begin);
    XORBIT_RETURN_IF_ERROR(StageChunks(segment.view, begin, staging.threads, piece));
    ClearPadding(padded, piece.size());
    stretch = {ConstBytes(buffer).subspan(carry_room - carried.size(), carried.size() + piece.size()), carried_from,
               stretch.frame_end, stretch.frame_end};
    const uint64_t frame_count = segment.decoder->record_count();
    while (stretch.frame_end < frame_count && EndOf(segment, stretch.frame_end + 1) <= end) ++stretch.frame_end;
    if (staging.checks_hashes) XORBIT_RETURN_IF_ERROR(CheckHashes(segment, stretch, staging.threads));
    XORBIT_RETURN_IF_ERROR(pieces->Take(offset + begin, padded));
  }
  return {};
}

}  // namespace

uint64_t InnerStagingBytes(const MaskPlan& plan) {
  uint64_t byte_count = 0;
  for (const FrameSegment& segment : plan.segments) byte_count += RoomOf(segment);
  return byte_count;
}

uint64_t PieceBufferBytes(const MaskPlan& plan, uint64_t piece_bytes) { return CarryRoom(plan) + piece_bytes; }

Status StageInner(const MaskPlan& plan, const InnerStaging& staging, MutableBytes target) {
  uint64_t at = 0;
  for (const FrameSegment& segment : plan.segments) {
    const MutableBytes stream = target.subspan(at, segment.inner_bytes);
    XORBIT_RETURN_IF_ERROR(StageChunks(segment.view, 0, staging.threads, stream));
    ClearPadding(target.subspan(at, RoomOf(segment)), stream.size());
    if (staging.checks_hashes) {
      XORBIT_RETURN_IF_ERROR(CheckHashes(segment, {stream, 0, 0, segment.decoder->record_count()}, staging.threads));
    }
    at += RoomOf(segment);
  }
  return {};
}

Status StageInnerByPieces(const MaskPlan& plan, const InnerStaging& staging, uint64_t piece_bytes, InnerPieces* pieces) {
  const uint64_t carry_room = CarryRoom(plan);
  uint64_t at = 0;
  for (const FrameSegment& segment : plan.segments) {
    XORBIT_RETURN_IF_ERROR(StageSegmentByPieces(segment, staging, piece_bytes, carry_room, at, pieces));
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
