// From a segment's element to where it lies: in live memory, and in its tensor, whose bytes the state digest counts.
//
// A tile's elements ascend and mostly stay in one run that is contiguous on all sides, so each lane keeps the run it was in and
// finds most elements by one comparison. A new run takes a search over parts, one over the pieces of a tensor's track, and a
// division a digit: tensor/live_cursor.h says the same for the host.
#pragma once

#include "backend/cuda/update_on_device.h"
#include "backend/cuda/warp.h"
#include "change/state_digest.h"

namespace xorbit::cuda {

// The last index in [low, high) whose key is at most `sought`; key(low) is. Mostly the hint or one soon after it.
template <typename Key>
XORBIT_DEVICE uint64_t FindLast(uint64_t low, uint64_t high, uint64_t hint, uint64_t sought, Key&& key) {
  if (hint >= low && hint < high && key(hint) <= sought) {
    low = hint;
    for (uint32_t step = 0; step < 4; ++step) {
      if (low + 1 >= high || key(low + 1) > sought) return low;
      ++low;
    }
  }
  while (high - low > 1) {
    const uint64_t middle = low + (high - low) / 2;
    if (key(middle) <= sought) {
      low = middle;
    } else {
      high = middle;
    }
  }
  return low;
}

// Elements of a segment that are contiguous in their tensor.
struct TensorRun {
  uint64_t first;  // segment element
  uint64_t count;
  uint64_t origin;  // of the first, in the tensor
};

XORBIT_DEVICE TensorRun RunInPart(const UpdateOnDevice& update, const LivePart& part, uint64_t end, uint64_t element) {
  if (part.digit_count == 1) return {part.first, end - part.first, part.origin};
  const Digit* digits = update.digits + part.digit_begin;
  const uint64_t run_length = digits[part.digit_count - 1].count;
  uint64_t rest = (element - part.first) / run_length;
  TensorRun run{part.first + rest * run_length, run_length, part.origin};
  for (uint32_t i = part.digit_count - 1; i-- > 0;) {
    run.origin += rest % digits[i].count * digits[i].stride;
    rest /= digits[i].count;
  }
  return run;
}

// Granules of a tensor that are contiguous in live memory, or absent from it.
struct GranuleRun {
  uint64_t first;
  uint64_t end;
  uint64_t live;  // granule in its region
  uint32_t region_index;
  bool present;
  bool counted;
};

XORBIT_DEVICE GranuleRun AbsentRun(uint64_t first, uint64_t end) { return {first, end, 0, 0, false, false}; }

// The run of a piece that holds `granule`, or the gap around it: inside the piece's hull, or from its end to the next piece.
XORBIT_DEVICE GranuleRun RunInPiece(const PieceClass& shape, const Piece& piece, uint64_t granule, uint64_t next_piece) {
  uint64_t base = piece.origin;
  uint64_t live = piece.live_origin;
  uint64_t gap_end = next_piece;
  for (uint32_t i = 0;; ++i) {
    uint64_t extent = 1;
    for (uint32_t j = i; j < shape.digit_count; ++j) extent += (shape.digits[j].count - 1) * shape.digits[j].canonical_stride;
    if (granule - base >= extent) return AbsentRun(base + extent, gap_end);
    const LiveDigit& digit = shape.digits[i];
    if (i + 1 == shape.digit_count) return {base, base + digit.count, live, piece.region_index, true, piece.counted};
    const uint64_t step = (granule - base) / digit.canonical_stride;
    base += step * digit.canonical_stride;
    live += step * digit.live_stride;
    gap_end = base + digit.canonical_stride;
  }
}

// One lane's own.
class PlaceFinder {
 public:
  XORBIT_DEVICE PlaceFinder(const UpdateOnDevice& update, const SegmentOnDevice& segment, uint64_t part_index)
      : update_(&update), parts_(segment.parts), part_count_(segment.part_count), part_index_(part_index) {}

  // One copy of any element of the segment whose granule is the element; a tensor has as many copies at most as it has tracks.
  // Finding elements that ascend, in the same track, is fast.
  template <typename Unit>
  XORBIT_DEVICE void Seek(uint64_t element, uint32_t track) {
    if (track != track_ || element - first_ >= count_) Advance<Unit>(element, track);
  }
  // Of the copy sought last. A copy may be absent.
  XORBIT_DEVICE bool is_present() const { return live_address_ != 0; }
  XORBIT_DEVICE bool is_counted() const { return counted_; }
  // Whether some words of the run reach out of its region.
  XORBIT_DEVICE bool is_ragged() const { return ragged_; }
  XORBIT_DEVICE uint32_t region_index() const { return region_index_; }
  XORBIT_DEVICE uint64_t tensor_key() const { return tensor_key_; }
  template <typename Unit>
  XORBIT_DEVICE uint64_t LiveAddressOf(uint64_t element) const {
    return live_address_ + (element - first_) * sizeof(Unit);
  }
  template <typename Unit>
  XORBIT_DEVICE uint64_t TensorByteOf(uint64_t element) const {
    return tensor_byte_ + (element - first_) * sizeof(Unit);
  }
  // The run that Seek found last: segment elements [first, first + count).
  XORBIT_DEVICE uint64_t run_first() const { return first_; }
  XORBIT_DEVICE uint64_t run_count() const { return count_; }

  // For tensors whose granules are smaller than their elements: the part that holds an element, and where a granule lies.
  XORBIT_DEVICE const LivePart& FindPart(uint64_t element) {
    const LivePart* parts = parts_;
    part_index_ = FindLast(0, part_count_, part_index_, element, [&](uint64_t i) { return parts[i].first; });
    return parts_[part_index_];
  }
  XORBIT_DEVICE uint64_t TensorElementOf(const LivePart& part, uint64_t element) const {
    const TensorRun run = RunInPart(*update_, part, (&part)[1].first, element);
    return run.origin + (element - run.first);
  }
  XORBIT_DEVICE GranuleRun FindGranule(const LivePart& part, uint32_t track, uint64_t granule) {
    if (track >= part.track_count) return AbsentRun(0, ~uint64_t{0});
    const uint32_t begin = update_->track_starts[part.track_begin + track];
    const uint32_t end = update_->track_starts[part.track_begin + track + 1];
    const Piece* pieces = update_->pieces;
    if (begin == end) return AbsentRun(0, ~uint64_t{0});
    if (granule < pieces[begin].origin) return AbsentRun(0, pieces[begin].origin);
    piece_index_ =
        static_cast<uint32_t>(FindLast(begin, end, piece_index_, granule, [&](uint64_t i) { return pieces[i].origin; }));
    const Piece& piece = pieces[piece_index_];
    const uint64_t next_piece = piece_index_ + 1 < end ? pieces[piece_index_ + 1].origin : ~uint64_t{0};
    return RunInPiece(update_->classes[piece.class_index], piece, granule, next_piece);
  }

 private:
  template <typename Unit>
  XORBIT_DEVICE void Advance(uint64_t element, uint32_t track) {
    const LivePart& part = FindPart(element);
    const TensorRun in_part = RunInPart(*update_, part, (&part)[1].first, element);
    const uint64_t at = in_part.origin + (element - in_part.first);
    const GranuleRun in_piece = FindGranule(part, track, at);
    const uint64_t begin = in_piece.first > in_part.origin ? in_piece.first : in_part.origin;
    const uint64_t part_end = in_part.origin + in_part.count;
    const uint64_t end = in_piece.end < part_end ? in_piece.end : part_end;
    track_ = track;
    first_ = in_part.first + (begin - in_part.origin);
    count_ = end - begin;
    tensor_byte_ = begin * sizeof(Unit);
    tensor_key_ = part.tensor_key;
    live_address_ = 0;
    if (!in_piece.present) return;
    const RegionBounds& region = update_->regions[in_piece.region_index];
    region_index_ = in_piece.region_index;
    counted_ = in_piece.counted;
    live_address_ = region.begin + (in_piece.live + (begin - in_piece.first)) * sizeof(Unit);
    const uint64_t live_end = live_address_ + count_ * sizeof(Unit);
    ragged_ = live_address_ / 4 * 4 < region.begin || (live_end + 3) / 4 * 4 > region.end;
  }

  const UpdateOnDevice* update_;
  const LivePart* parts_;
  uint64_t part_count_;
  uint64_t part_index_;
  uint32_t piece_index_ = 0;
  uint32_t track_ = 0;
  uint64_t first_ = 0;
  uint64_t count_ = 0;  // 0: nothing was sought yet
  uint64_t live_address_ = 0;
  uint64_t tensor_byte_ = 0;
  uint64_t tensor_key_ = 0;
  uint32_t region_index_ = 0;
  bool counted_ = false;
  bool ragged_ = false;
};

inline constexpr uint32_t kWordFactorCount = 2 * kDigestWordsPerBlock;

// g[L][k] at 16 L + k: computed into fast memory once a block, because a table of constants would be read one lane at a time.
XORBIT_DEVICE uint64_t WordFactorAt(uint32_t index) { return SplitMix64(0x786f72626974 + index) | 1; }

// What an element counts in both lanes of the state digest, for any of its values.
class ElementWeight {
 public:
  // `at`: byte of its tensor. word_factors: see WordFactorAt.
  XORBIT_DEVICE ElementWeight(uint64_t tensor_key, uint64_t at, const uint64_t* word_factors)
      : factors_(BlockFactorsOf(tensor_key, at / kDigestBlockBytes)),
        word_factors_(word_factors + at / 4 % kDigestWordsPerBlock),
        shift_(static_cast<uint32_t>(at % 4 * 8)) {}

  template <typename Unit>
  XORBIT_DEVICE uint64_t Lane0(Unit bits) const {
    return factors_.lane0 * Weigh(bits, word_factors_);
  }
  template <typename Unit>
  XORBIT_DEVICE uint64_t Lane1(Unit bits) const {
    return factors_.lane1 * Weigh(bits, word_factors_ + kDigestWordsPerBlock);
  }

 private:
  template <typename Unit>
  XORBIT_DEVICE uint64_t Weigh(Unit bits, const uint64_t* word_factors) const {
    if constexpr (sizeof(Unit) == 8) return word_factors[0] * (bits & 0xffffffff) + word_factors[1] * (bits >> 32);
    return word_factors[0] * (uint64_t{bits} << shift_);
  }

  BlockFactors factors_;
  const uint64_t* word_factors_;
  uint32_t shift_;
};

}  // namespace xorbit::cuda
