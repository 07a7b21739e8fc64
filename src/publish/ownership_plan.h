// Who publishes what, when several ranks may hold the same weights. Pure: every rank makes the same plan from what all declare.
//
// Tied weights, pipeline stages that repeat an embedding, and norms that every tensor-parallel rank keeps are *held* by several
// ranks. The lowest of them publishes such a part; all of them bear witness with every publication: their digests of it must be
// equal, so that ranks that have drifted apart are refused and never merged by chance.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/sha256.h"
#include "tensor/segment.h"

namespace xorbit {

// Parts of one unit and group that are declared more than once, as one rank holds them.
struct SharedSegment {
  SegmentMap map;
  // By part: which of the rank's declared parts it is, the rank that publishes it, and its PartsDigest.
  std::vector<uint32_t> declared;
  std::vector<uint32_t> owner_index;
  std::vector<Sha256Digest> part_sha256;
};

// What one rank does.
struct RankPlan {
  uint32_t owner_index = 0;
  uint32_t owner_count = 1;
  std::vector<SegmentMap> owned;  // what it publishes, by group, then unit
  // declared[s][i]: which of the declared parts owned[s].parts()[i] is.
  std::vector<std::vector<uint32_t>> declared;
  std::vector<SharedSegment> shared;  // several of one unit and group where the rank itself declares a part twice
  uint32_t declared_count = 0;
};

// One plan a rank; declared[r] are the parts that rank r holds, in any order. kUsage if a part does not fit the layout or its
// tensor is frozen; kRefused, with the tensor's name, if the parts leave a hole or overlap without being equal.
Result<std::vector<RankPlan>> PlanOwnership(const Layout& layout, std::span<const std::vector<Part>> declared);

// The plans of owners that hold nothing but what they publish, part by part in this order.
std::vector<RankPlan> PlansOf(std::vector<std::vector<SegmentMap>> owners);

}  // namespace xorbit
