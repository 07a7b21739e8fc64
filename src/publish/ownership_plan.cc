#include "publish/ownership_plan.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <string>
#include <tuple>

#include "store/receipt.h"
#include "tensor/ownership.h"

namespace xorbit {
namespace {

// Equal parts are found by what they are, whoever declares them.
struct PartOrder {
  static auto DigitsOf(const Part& part) {
    std::vector<std::pair<uint64_t, uint64_t>> digits;
    for (const Digit& digit : part.digits) digits.emplace_back(digit.count, digit.stride);
    return digits;
  }
  bool operator()(const Part* a, const Part* b) const {
    const auto head = [](const Part* part) { return std::tuple(part->tensor_index, part->origin); };
    if (head(a) != head(b)) return head(a) < head(b);
    return DigitsOf(*a) < DigitsOf(*b);
  }
};

struct Holder {
  uint32_t rank;
  uint32_t declared_index;
};
using Holders = std::map<const Part*, std::vector<Holder>, PartOrder>;

Holders FindHolders(std::span<const std::vector<Part>> declared) {
  Holders holders;
  for (uint32_t rank = 0; rank < declared.size(); ++rank) {
    for (uint32_t i = 0; i < declared[rank].size(); ++i) holders[&declared[rank][i]].push_back({rank, i});
  }
  return holders;
}

Result<SegmentMap> MapOf(const Layout& layout, const TensorSpec& tensor, std::vector<Part> parts) {
  auto map = SegmentMap::Make(layout, UnitBytesOf(tensor.dtype), tensor.group, std::move(parts));
  if (!map.ok()) return UsageError(map.status().message());
  return map;
}

// Collects what a rank publishes, in the order of its segments.
struct OwnedParts {
  std::vector<Part> parts;
  std::vector<uint32_t> declared;
};
using OwnedSegments = std::map<std::pair<uint32_t, uint32_t>, OwnedParts>;  // by group, unit

// Collects what a rank bears witness of. The rank's second copy of a part goes into another segment than its first.
struct SharedParts {
  std::vector<Part> parts;
  SharedSegment segment;  // but for its map
};
using SharedSegments = std::map<std::tuple<uint32_t, uint32_t, uint32_t>, SharedParts>;  // by copy, group, unit

Status AddShared(const Layout& layout, const Part& part, const std::vector<Holder>& holders,
                 std::vector<SharedSegments>* shared) {
  const TensorSpec& tensor = layout.tensors()[part.tensor_index];
  XORBIT_ASSIGN_OR_RETURN(const SegmentMap map, MapOf(layout, tensor, {part}));
  const SegmentMap* const segments[] = {&map};
  const Sha256Digest part_sha256 = PartsDigest(layout, segments);
  uint32_t copy = 0;
  for (size_t i = 0; i < holders.size(); ++i) {
    copy = i > 0 && holders[i - 1].rank == holders[i].rank ? copy + 1 : 0;
    SharedParts& parts = (*shared)[holders[i].rank][{copy, tensor.group, UnitBytesOf(tensor.dtype)}];
    parts.parts.push_back(part);
    parts.segment.declared.push_back(holders[i].declared_index);
    parts.segment.owner_index.push_back(holders.front().rank);
    parts.segment.part_sha256.push_back(part_sha256);
  }
  return {};
}

}  // namespace

Result<std::vector<RankPlan>> PlanOwnership(const Layout& layout, std::span<const std::vector<Part>> declared) {
  const auto rank_count = static_cast<uint32_t>(declared.size());
  if (rank_count == 0 || declared.size() > kMaxOwners) {
    return UsageError("a trainer has 1 to " + std::to_string(kMaxOwners) + " ranks");
  }
  std::vector<RankPlan> plans(rank_count);
  std::vector<OwnedSegments> owned(rank_count);
  std::vector<SharedSegments> shared(rank_count);
  for (uint32_t rank = 0; rank < rank_count; ++rank) {
    plans[rank].owner_index = rank;
    plans[rank].owner_count = rank_count;
    plans[rank].declared_count = static_cast<uint32_t>(declared[rank].size());
    for (const Part& part : declared[rank]) {
      if (part.tensor_index >= layout.tensors().size()) {
        return UsageError("rank " + std::to_string(rank) + " declares a tensor that the layout does not have");
      }
    }
  }

  // The map's order is by tensor, then origin, as segments need it.
  for (const auto& [part, holders] : FindHolders(declared)) {
    const TensorSpec& tensor = layout.tensors()[part->tensor_index];
    const Holder& owner = holders.front();  // ranks were visited in order
    OwnedParts& segment = owned[owner.rank][{tensor.group, UnitBytesOf(tensor.dtype)}];
    segment.parts.push_back(*part);
    segment.declared.push_back(owner.declared_index);
    if (holders.size() > 1) XORBIT_RETURN_IF_ERROR(AddShared(layout, *part, holders, &shared));
  }

  std::vector<const SegmentMap*> all;
  for (uint32_t rank = 0; rank < rank_count; ++rank) {
    for (auto& [key, segment] : owned[rank]) {
      const TensorSpec& tensor = layout.tensors()[segment.parts.front().tensor_index];
      XORBIT_ASSIGN_OR_RETURN(SegmentMap map, MapOf(layout, tensor, std::move(segment.parts)));
      plans[rank].owned.push_back(std::move(map));
      plans[rank].declared.push_back(std::move(segment.declared));
    }
    for (const SegmentMap& map : plans[rank].owned) all.push_back(&map);
    for (auto& [key, parts] : shared[rank]) {
      const TensorSpec& tensor = layout.tensors()[parts.parts.front().tensor_index];
      XORBIT_ASSIGN_OR_RETURN(parts.segment.map, MapOf(layout, tensor, std::move(parts.parts)));
      plans[rank].shared.push_back(std::move(parts.segment));
    }
  }
  if (const Status coverage = ProveCoverage(layout, all); !coverage.ok()) {
    return RefusedError("the ranks' parts do not make up the model: " + coverage.message());
  }
  return plans;
}

std::vector<RankPlan> PlansOf(std::vector<std::vector<SegmentMap>> owners) {
  std::vector<RankPlan> plans(owners.size());
  for (size_t owner = 0; owner < owners.size(); ++owner) {
    RankPlan& plan = plans[owner];
    plan.owner_index = static_cast<uint32_t>(owner);
    plan.owner_count = static_cast<uint32_t>(owners.size());
    plan.owned = std::move(owners[owner]);
    for (const SegmentMap& map : plan.owned) {
      std::vector<uint32_t>& declared = plan.declared.emplace_back(map.parts().size());
      std::iota(declared.begin(), declared.end(), plan.declared_count);
      plan.declared_count += static_cast<uint32_t>(declared.size());
    }
  }
  return plans;
}

}  // namespace xorbit
