#include "tensor/live_cursor.h"

#include <algorithm>
#include <array>

namespace xorbit {
namespace {

LiveRun Absent(uint64_t begin, uint64_t end) { return {.granule = begin, .granule_count = end - begin}; }

// The run of `piece` that holds `granule`, or the gap around it: inside the piece's hull, or from its end to `next_piece`.
LiveRun RunInPiece(const PieceClass& shape, const Piece& piece, uint64_t granule, uint64_t next_piece) {
  if (shape.digit_count == 1) {
    const uint64_t count = shape.digits[0].count;
    if (granule - piece.origin >= count) return Absent(piece.origin + count, next_piece);
    return {piece.origin, count, piece.live_origin, piece.region_index, piece.counted};
  }
  std::array<uint64_t, kMaxLiveDigits> extents{};  // of the digits from i on
  uint64_t extent = 1;
  for (uint32_t i = shape.digit_count; i-- > 0;) {
    extent += (shape.digits[i].count - 1) * shape.digits[i].canonical_stride;
    extents[i] = extent;
  }
  uint64_t base = piece.origin;
  uint64_t live = piece.live_origin;
  uint64_t gap_end = next_piece;
  for (uint32_t i = 0;; ++i) {
    const uint64_t rest = granule - base;
    // Past the faster digits: nested strides leave a gap until the slower digit counts on.
    if (rest >= extents[i]) return Absent(base + extents[i], gap_end);
    const LiveDigit& digit = shape.digits[i];
    if (i + 1 == shape.digit_count) {
      return {.granule = base,
              .granule_count = digit.count,
              .live_granule = live,
              .region_index = piece.region_index,
              .counted = piece.counted};
    }
    const uint64_t step = rest / digit.canonical_stride;
    base += step * digit.canonical_stride;
    live += step * digit.live_stride;
    gap_end = base + digit.canonical_stride;
  }
}

}  // namespace

void LiveCursor::Advance(uint64_t granule) {
  if (pieces_.empty() || granule < pieces_.front().origin) {
    run_ = Absent(0, pieces_.empty() ? UINT64_MAX : pieces_.front().origin);
    return;
  }
  // Mostly the same piece, or one of the next.
  const size_t count = pieces_.size();
  for (int step = 0; step < 4 && at_ + 1 < count && pieces_[at_ + 1].origin <= granule; ++step) ++at_;
  if (pieces_[at_].origin > granule || (at_ + 1 < count && pieces_[at_ + 1].origin <= granule)) {
    const auto after = std::upper_bound(pieces_.begin(), pieces_.end(), granule,
                                        [](uint64_t sought, const Piece& piece) { return sought < piece.origin; });
    at_ = static_cast<size_t>(after - pieces_.begin()) - 1;
  }
  const uint64_t next_piece = at_ + 1 < count ? pieces_[at_ + 1].origin : UINT64_MAX;
  run_ = RunInPiece(map_->class_of(pieces_[at_]), pieces_[at_], granule, next_piece);
}

}  // namespace xorbit
