// Who publishes what, when several ranks may hold the same weights. Pure: every rank makes the same plan from what all declare.
//
// Tied weights, pipeline stages that repeat an embedding, and norms that every tensor-parallel rank keeps are *held* by several
// ranks. The lowest of them publishes such a part; the others bear witness: their digest of it must be the publisher's, so that
// ranks that have drifted apart are refused and never merged by chance.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "tensor/segment.h"

namespace xorbit {

// A part that several ranks hold, as one of them sees it.
struct SharedPart {
  uint32_t owner_index = 0;     // the rank that publishes it
  uint32_t declared_index = 0;  // among the rank's declared parts
  SegmentMap map;               // of this part alone
};

// What one rank does.
struct RankPlan {
  uint32_t owner_index = 0;
  uint32_t owner_count = 1;
  std::vector<SegmentMap> owned;  // what it publishes, by group, then unit
  // declared[s][i]: which of the declared parts owned[s].parts()[i] is.
  std::vector<std::vector<uint32_t>> declared;
  std::vector<SharedPart> shared;
  uint32_t declared_count = 0;
};

// One plan a rank; declared[r] are the parts that rank r holds, in any order. kUsage if a part does not fit the layout or its
// tensor is frozen; kRefused, with the tensor's name, if the parts leave a hole or overlap without being equal.
Result<std::vector<RankPlan>> PlanOwnership(const Layout& layout, std::span<const std::vector<Part>> declared);

// The plans of owners that hold nothing but what they publish, part by part in this order.
std::vector<RankPlan> PlansOf(std::vector<std::vector<SegmentMap>> owners);

}  // namespace xorbit
