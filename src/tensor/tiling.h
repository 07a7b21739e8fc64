// Do boxes tile a space? The one proof behind "every element has one owner" (coverage.cc), "every canonical element is counted
// once" and "every live bit has one writer" (live_proofs.cc).
//
// A tensor of a billion elements may be cut into column shards of a million runs each, so runs are not listed: the proof works
// on the boxes' digits. If every box is one run, sort and look for gaps and overlaps. Otherwise cut the space into rows of the
// largest stride T of any box. Each box is then "rows [a, b) x the same pattern inside each of these rows". Boxes with equal
// rows form a band; the bands must tile the rows, and inside a band the patterns must tile a space of T places: the same
// problem, smaller. Tensor-parallel shards by row, column or both, ranges within them and interleaved rows all reduce in this
// way; each level costs a sort, and T divides its predecessor, so there are at most 64 levels.
//
// What does not reduce is listed as runs after all, up to kTilingRunLimit, and refused above.
#pragma once

#include <array>
#include <cstdint>
#include <span>

#include "tensor/segment.h"

namespace xorbit {

inline constexpr uint64_t kTilingRunLimit = uint64_t{1} << 22;

// A box inside a space of places. Digits are nested and normalised: counts of 1 dropped, digits that continue each other
// merged, so that equal sets of places look equal. The last digit's stride is 1.
struct TilingBox {
  uint32_t id = 0;  // the caller's, for messages
  uint32_t digit_count = 0;
  uint64_t origin = 0;
  std::array<Digit, kMaxDigits> digits;

  // The next faster digit; nested inside those before it, the last one with stride 1.
  void Append(const Digit& digit, bool is_last);

  bool is_run() const { return digit_count == 1; }
  const Digit& outer() const { return digits[0]; }
  uint64_t run_length() const { return digits[digit_count - 1].count; }
  uint64_t extent() const;  // from the first place to one past the last
  uint64_t run_count() const;

 private:
  friend class TilingProof;

  // Rows of the current level. Rewritten in place from level to level, so that memory does not grow with the depth.
  uint64_t first_row_ = 0;
  uint64_t end_row_ = 0;
};

// What is wrong with a tiling.
struct TilingFault {
  enum class Kind { kNone, kMissing, kTwice, kTooIrregular };

  Kind kind = Kind::kNone;
  uint64_t at = 0;        // a place that no box holds, or two do
  uint32_t first_id = 0;  // kTwice: the boxes that hold it
  uint32_t second_id = 0;

  bool found() const { return kind != Kind::kNone; }
};

// kExact: each of [0, space) lies in exactly one box. kDisjoint: in at most one.
enum class TilingGoal { kExact, kDisjoint };

// The boxes must lie inside [0, space); they are reordered and rewritten. Memory is that of the boxes and of at most
// `*run_budget` listed runs, which is reduced by those that were listed: shared by many spaces, it bounds the time of all.
TilingFault FindTilingFault(std::span<TilingBox> boxes, uint64_t space, TilingGoal goal, uint64_t* run_budget);

}  // namespace xorbit
