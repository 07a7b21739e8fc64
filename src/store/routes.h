// The way from one version to another over the deltas at hand. Pure.
//
// Edges go both ways, since a delta is its own inverse: it may pay to overshoot and come back. Bytes are what a receiver waits
// for, but every object costs a round trip and a fold, so the number of objects is bounded first.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "store/edge.h"

namespace xorbit {

// max(1, floor(2 log2 k)): what k steps may take when the folds are there.
uint32_t ObjectLimit(uint64_t step_count);

// The cheapest route by bytes among those of at most `object_limit` edges, then by number of objects, then by keys: the same
// edges in any order give the same route. Empty if from == to; nothing if there is none.
std::optional<std::vector<Hop>> CheapestRoute(std::span<const Edge> edges, uint64_t from, uint64_t to, uint32_t object_limit);

// The same without a limit.
std::optional<std::vector<Hop>> CheapestRoute(std::span<const Edge> edges, uint64_t from, uint64_t to);

uint64_t ByteCountOf(std::span<const Hop> route);

}  // namespace xorbit
