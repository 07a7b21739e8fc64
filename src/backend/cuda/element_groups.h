// A tile's elements, unchanged ones as zeros, 32 at a time from the last to the first: what dense tiles are made of.
#pragma once

#include "backend/cuda/ordered_changes.h"

namespace xorbit::cuda {

template <typename Unit>
class ElementGroups {
 public:
  // `values`: 32 of them in fast memory, the warp's own.
  XORBIT_DEVICE ElementGroups(const TileChangesOnDevice<Unit>& changes, uint64_t* values)
      : changes_(changes), values_(values), first_position_(changes.PositionAt(0)), end_(changes.count) {}

  // This lane's of the elements from `base` on, counted from the tile's first; bases descend by 32. All lanes together.
  XORBIT_DEVICE Unit Load(uint32_t base) {
    values_[Lane()] = 0;
    SyncWarp();
    bool inside = false;
    if (Lane() < end_) {
      const Change<Unit> change = changes_.Load(end_ - 1 - Lane()).change();
      const uint32_t offset = change.position - first_position_;
      inside = offset >= base;
      if (inside) values_[offset % kWarpLanes] = change.bits;
    }
    end_ -= CountBits(Ballot(inside));
    SyncWarp();
    const auto value = static_cast<Unit>(values_[Lane()]);
    SyncWarp();
    return value;
  }

 private:
  TileChangesOnDevice<Unit> changes_;
  uint64_t* values_;
  uint32_t first_position_;
  uint32_t end_;  // changes that are not yet loaded
};

}  // namespace xorbit::cuda
