// A piece of live memory as runs: stretches that lie one after the other both in the tensor and in live memory.
#pragma once

#include <cstdint>

#include "tensor/live_map.h"

namespace xorbit {

// Calls visit(canonical, live) with the first granule of each run of shape.run_length() granules, in the order of the class's
// digits.
template <typename Visit>
void ForEachRun(const PieceClass& shape, const Piece& piece, const Visit& visit) {
  const uint64_t run_count = shape.granule_count() / shape.run_length();
  for (uint64_t run = 0; run < run_count; ++run) {
    uint64_t rest = run;
    uint64_t canonical = piece.origin;
    uint64_t live = piece.live_origin;
    for (uint32_t i = shape.digit_count - 1; i-- > 0;) {
      const LiveDigit& digit = shape.digits[i];
      canonical += rest % digit.count * digit.canonical_stride;
      live += rest % digit.count * digit.live_stride;
      rest /= digit.count;
    }
    visit(canonical, live);
  }
}

}  // namespace xorbit
