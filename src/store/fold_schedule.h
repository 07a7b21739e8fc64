// Which folds a publisher writes after a version was committed. Pure: what is in the store decides, so that a resumed run, or
// another rank, goes on as the first would have.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "store/edge.h"

namespace xorbit {

struct PlannedFold {
  uint64_t from = 0;
  uint64_t to = 0;
  std::vector<Hop> chain;  // the edges at hand whose composition it is, in order
  friend bool operator==(const PlannedFold&, const PlannedFold&) = default;
};

// The folds that end in the newest of `committed`, smallest first, each with a chain of edges that are there or planned before
// it (those have no key yet). `committed` are the committed versions, ascending, from any one on; `edges` the deltas between
// them; `marks` the versions that folds should start from as well (0 is the base). Whoever asks, while these folds are being
// written or afterwards, gets the same ones but for those that are there already.
std::vector<PlannedFold> PlanFolds(std::span<const uint64_t> committed, std::span<const Edge> edges,
                                   std::span<const uint64_t> marks);

}  // namespace xorbit
