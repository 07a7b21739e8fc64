// Which experts of an engine a rank holds, and in which order.
#pragma once

#include <cstdint>
#include <vector>

#include "base/status.h"
#include "tensor/engine_layouts.h"

namespace xorbit {

// One place of a tensor among the experts of its region, or the only one.
struct ExpertPlace {
  uint64_t block = 0;             // in the region
  uint64_t canonical_expert = 0;  // in a tensor that stacks them
  bool counted = true;
};

struct ExpertPlan {
  uint64_t per_rank = 0;
  std::vector<std::vector<ExpertPlace>> places_of_expert;  // on this rank
};

// Ranks that hold the same experts, and cut each of them.
inline uint32_t ExpertTpSize(const EngineRank& rank) { return rank.world_size / rank.ep_size; }

// kUsage if the experts do not divide over the groups of ranks, or a slot names none.
Result<ExpertPlan> PlanExperts(const EngineLayout& engine, const EngineRank& rank);

}  // namespace xorbit
