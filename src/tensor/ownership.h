// Who owns what: splits a layout over owners, and proves that parts cover it exactly once. Pure planning, no bytes.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "tensor/segment.h"

namespace xorbit {

// Every trainer rank may be an owner. A reader maps the payloads of all owners of all deltas that it folds at once, and Linux
// lets a process map 65530 files.
inline constexpr uint32_t kMaxOwners = 1U << 14;

// How PlanOwners cuts. Frozen and empty tensors are owned by nobody.
enum class Split {
  kWhole,   // whole tensors, balanced by bytes
  kRange,   // FSDP: each tensor's elements cut into owner_count nearly equal contiguous ranges
  kColumn,  // TP: each matrix cut by columns of its last dimension where that divides, other tensors as kRange
};
Result<Split> ParseSplit(std::string_view name);  // "whole", "range", "column"

// Segments per owner, groups, then units ascending; every owner gets at least an empty list. kUsage unless owner_count is 1 to
// kMaxOwners.
Result<std::vector<std::vector<SegmentMap>>> PlanOwners(const Layout& layout, uint32_t owner_count, Split split);

// Success if the segments together hold every element of every tensor that is neither frozen nor empty exactly once; otherwise
// kCorrupt with the tensor's name and what is wrong (missing, or owned twice). The segments must have been made for this
// layout. Memory is bounded by a small multiple of the number of parts plus a constant, and time likewise (times a logarithm),
// whatever the parts say: cuts that would need more are kUnsupported. coverage.cc tells how.
Status ProveCoverage(const Layout& layout, std::span<const SegmentMap* const> segments);

}  // namespace xorbit
