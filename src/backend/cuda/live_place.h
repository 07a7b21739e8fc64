// From a segment's element to where it lies: in live memory, and in its tensor, whose bytes the state digest counts.
//
// The general way: a search over parts, one over the pieces of a tensor's track, and a division a digit; tensor/live_cursor.h
// says the same for the host. The host plans boxes by it (box_plan.h); on the device, only tiles without boxes go this way.
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

// Where searches were last, which is where they go on.
struct PlaceHint {
  uint64_t part_index;
  uint64_t piece_index;
};

XORBIT_DEVICE const LivePart& FindPart(const SegmentOnDevice& segment, uint64_t element, PlaceHint* hint) {
  const LivePart* parts = segment.parts;
  hint->part_index = FindLast(0, segment.part_count, hint->part_index, element, [&](uint64_t i) { return parts[i].first; });
  return parts[hint->part_index];
}

XORBIT_DEVICE GranuleRun FindGranule(const UpdateOnDevice& update, const LivePart& part, uint32_t track, uint64_t granule,
                                     PlaceHint* hint) {
  if (track >= part.track_count) return AbsentRun(0, ~uint64_t{0});
  const uint32_t begin = update.track_starts[part.track_begin + track];
  const uint32_t end = update.track_starts[part.track_begin + track + 1];
  const Piece* pieces = update.pieces;
  if (begin == end) return AbsentRun(0, ~uint64_t{0});
  if (granule < pieces[begin].origin) return AbsentRun(0, pieces[begin].origin);
  hint->piece_index = FindLast(begin, end, hint->piece_index, granule, [&](uint64_t i) { return pieces[i].origin; });
  const Piece& piece = pieces[hint->piece_index];
  const uint64_t next_piece = hint->piece_index + 1 < end ? pieces[hint->piece_index + 1].origin : ~uint64_t{0};
  return RunInPiece(update.classes[piece.class_index], piece, granule, next_piece);
}

// Elements of a segment that are contiguous in their tensor, and in one copy of live memory or absent from it.
struct CopyRun {
  uint64_t first = 0;         // segment element
  uint64_t count = 0;         // 0: nothing was sought yet
  uint64_t live_address = 0;  // of the first; 0: absent
  uint64_t tensor_byte = 0;   // of the first
  uint64_t tensor_key = 0;
  uint32_t region_index = 0;
  bool counted = false;
  PlaceHint hint{};
};

XORBIT_DEVICE_RARE CopyRun FindRun(const UpdateOnDevice* update, const SegmentOnDevice* segment, uint64_t element,
                                   uint32_t track, PlaceHint hint) {
  const uint64_t unit_bytes = segment->unit_bytes;
  const LivePart& part = FindPart(*segment, element, &hint);
  const TensorRun in_part = RunInPart(*update, part, (&part)[1].first, element);
  const uint64_t at = in_part.origin + (element - in_part.first);
  const GranuleRun in_piece = FindGranule(*update, part, track, at, &hint);
  const uint64_t begin = in_piece.first > in_part.origin ? in_piece.first : in_part.origin;
  const uint64_t part_end = in_part.origin + in_part.count;
  const uint64_t end = in_piece.end < part_end ? in_piece.end : part_end;
  CopyRun run;
  run.first = in_part.first + (begin - in_part.origin);
  run.count = end - begin;
  run.tensor_byte = begin * unit_bytes;
  run.tensor_key = part.tensor_key;
  run.hint = hint;
  if (!in_piece.present) return run;
  const RegionBounds& region = update->regions[in_piece.region_index];
  run.region_index = in_piece.region_index;
  run.counted = in_piece.counted;
  run.live_address = region.begin + (in_piece.live + (begin - in_piece.first)) * unit_bytes;
  return run;
}

// A granule of an element whose parts lie apart.
struct GranulePlace {
  uint64_t live;  // granule in its region
  uint32_t region_index;
  bool present;
  bool counted;
};

// One copy of a granule of a part's tensor.
XORBIT_DEVICE_RARE GranulePlace FindGranulePlace(const UpdateOnDevice* update, const LivePart* part, uint64_t granule,
                                                 uint32_t track) {
  PlaceHint hint{0, ~uint64_t{0}};
  const GranuleRun run = FindGranule(*update, *part, track, granule, &hint);
  return {run.live + (granule - run.first), run.region_index, run.present, run.counted};
}

inline constexpr uint32_t kWordFactorCount = 2 * kDigestWordsPerBlock;

// g[L][k] at 16 L + k: computed into fast memory once a block, because a table of constants would be read one lane at a time.
XORBIT_DEVICE uint64_t WordFactorAt(uint32_t index) { return SplitMix64(0x786f72626974 + index) | 1; }

// What an element counts in both lanes of the state digest, for any of its values.
template <typename Unit>
class ElementWeight {
 public:
  // `at`: byte of its tensor, a multiple of the unit. word_factors: see WordFactorAt.
  XORBIT_DEVICE ElementWeight(uint64_t tensor_key, uint64_t at, const uint64_t* word_factors)
      : block_(BlockFactorsOf(tensor_key, at / kDigestBlockBytes)),
        factors_(word_factors + at / 4 % kDigestWordsPerBlock),
        shift_(static_cast<uint32_t>(at % 4 * 8)) {}
  XORBIT_DEVICE uint64_t Lane0(Unit bits) const { return Weigh(bits, block_.lane0, factors_); }
  XORBIT_DEVICE uint64_t Lane1(Unit bits) const { return Weigh(bits, block_.lane1, factors_ + kDigestWordsPerBlock); }

 private:
  XORBIT_DEVICE uint64_t Weigh(Unit bits, uint64_t of_block, const uint64_t* factors) const {
    if constexpr (sizeof(Unit) == 8) {
      return of_block * factors[0] * (bits & 0xffffffff) + of_block * factors[1] * (bits >> 32);
    } else {
      return of_block * factors[0] * (uint32_t{bits} << shift_);
    }
  }

  BlockFactors block_;
  const uint64_t* factors_;  // of its first word
  uint32_t shift_;           // in that word; 0 for units of a word and more
};

}  // namespace xorbit::cuda
