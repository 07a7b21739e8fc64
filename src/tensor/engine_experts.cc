#include "tensor/engine_experts.h"

#include <algorithm>
#include <string>

namespace xorbit {
namespace {

constexpr uint32_t kMaxExpertSlots = 1U << 20;

}  // namespace

Result<ExpertPlan> PlanExperts(const EngineLayout& engine, const EngineRank& rank) {
  std::vector<uint32_t> slots = engine.expert_slots;
  if (slots.empty()) {
    for (uint32_t i = 0; i < std::min(engine.expert_count, kMaxExpertSlots); ++i) slots.push_back(i);
  }
  if (engine.expert_count > kMaxExpertSlots || slots.size() > kMaxExpertSlots || slots.size() % rank.ep_size != 0) {
    return UsageError("the experts do not divide over " + std::to_string(rank.ep_size) + " groups of ranks");
  }
  ExpertPlan plan;
  plan.per_rank = slots.size() / rank.ep_size;
  const uint64_t first = rank.rank / ExpertTpSize(rank) * plan.per_rank;
  plan.places_of_expert.resize(engine.expert_count);
  std::vector<bool> seen(engine.expert_count, false);
  for (uint64_t i = 0; i < slots.size(); ++i) {
    if (slots[i] >= engine.expert_count) return UsageError("an expert slot holds an expert that is not there");
    if (i - first < plan.per_rank) {
      plan.places_of_expert[slots[i]].push_back({.block = i - first, .canonical_expert = slots[i], .counted = !seen[slots[i]]});
    }
    seen[slots[i]] = true;
  }
  return plan;
}

}  // namespace xorbit
