// The parameters of an engine on one rank: which tensors share one, and how large it is.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "base/checked_math.h"
#include "base/status.h"
#include "tensor/axis_plan.h"
#include "tensor/engine_cut.h"
#include "tensor/live_map.h"

namespace xorbit {

// A parameter of the engine: `blocks` experts, each of the rows of all slots.
struct EngineRegion {
  const EngineItem* first = nullptr;
  std::vector<uint64_t> slot_rows;
  uint64_t columns = 0;
  uint64_t blocks = 1;
  uint32_t index = 0;  // among all, by name

  uint64_t rows_before(uint64_t slot) const {
    uint64_t rows = 0;
    for (uint64_t i = 0; i < slot; ++i) rows += slot_rows[i];
    return rows;
  }
  uint64_t rows() const { return rows_before(slot_rows.size()); }
  uint64_t padded_columns() const {
    return first->rule->swizzle ? DivideRoundUp(columns, kSwizzleColumns) * kSwizzleColumns : columns;
  }
  uint64_t block_granules() const {
    const uint64_t padded_rows = first->rule->swizzle ? DivideRoundUp(rows(), kSwizzleRows) * kSwizzleRows : rows();
    return padded_rows * padded_columns();
  }
};

// The layout and all items outlive it.
class EngineRegions {
 public:
  EngineRegions(const Layout& layout, uint64_t experts_per_rank) : layout_(layout), experts_per_rank_(experts_per_rank) {}

  // kRefused if the tensor does not fit those that lie in its region already.
  Status Add(const EngineItem& item);
  // Once all are there: the regions of the live map, by name. kRefused if one has a hole or no whole number of bytes.
  Result<std::vector<LiveRegion>> Close();
  // Of an item that was added; its index is right once all are closed.
  const EngineRegion& RegionOf(const EngineItem& item) const { return regions_.at(item.region); }

 private:
  const Layout& layout_;
  uint64_t experts_per_rank_;
  std::map<std::string, EngineRegion> regions_;
};

}  // namespace xorbit
