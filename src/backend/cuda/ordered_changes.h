// A segment's changes in order, and the tiles that they are cut into.
#pragma once

#include <bit>

#include "backend/cuda/change_record.h"
#include "backend/cuda/send_on_device.h"
#include "backend/cuda/warp.h"

namespace xorbit::cuda {

// Whether all changes found a place. If not, the host will say so, and nothing is read of what was not stored.
XORBIT_DEVICE bool HasRoom(const SendOnDevice& send) {
  return send.counters->change_count <= send.change_capacity && send.counters->stored_count <= send.stored_capacity;
}

// The last group that starts at or before change `index`, by 32 probes at a time. All lanes together, with the same index.
XORBIT_DEVICE uint64_t GroupOf(const SendOnDevice& send, uint64_t index) {
  uint64_t low = 0;
  for (uint64_t high = send.group_count; high - low > 1;) {
    const uint64_t step = (high - low + kWarpLanes - 1) / kWarpLanes;
    const uint64_t probe = low + Lane() * step;
    const uint32_t votes = Ballot(probe < high && send.group_starts[probe] <= index);
    low += (CountBits(votes) - 1) * step;
    high = low + step < high ? low + step : high;
  }
  return low;
}

// Where a change of this group lies in the segment, in 64 bits.
XORBIT_DEVICE uint64_t PositionIn(const SendOnDevice& send, uint64_t group, uint32_t position) {
  const uint64_t first = send.strips[group * kStripsPerGroup].first_element;
  return first + (position - static_cast<uint32_t>(first));
}

// The same for change `index`. All lanes together, with the same index.
template <typename Unit>
XORBIT_DEVICE uint64_t PositionOf(const SendOnDevice& send, uint64_t index) {
  return PositionIn(send, GroupOf(send, index), LoadChange<Unit>(send.changes, index).position());
}

XORBIT_DEVICE uint64_t TileCountOf(const SendOnDevice& send) {
  if (send.tiles != nullptr) return send.tile_count;
  return HasRoom(send) ? (send.counters->change_count + kMaxTileChanges - 1) / kMaxTileChanges : 0;
}

XORBIT_DEVICE SendTile TileAt(const SendOnDevice& send, uint64_t index) {
  if (send.tiles != nullptr) return send.tiles[index];
  const uint64_t first = index * kMaxTileChanges;
  const uint64_t left = send.counters->change_count - first;
  const uint16_t flags = index > 0 ? kTileFollows : 0;
  return {first, left < kMaxTileChanges ? static_cast<uint32_t>(left) : kMaxTileChanges, flags, 0};
}

// A tile's changes, by their index in it.
template <typename Unit>
struct TileChangesOnDevice {
  const StoredChange<Unit>* changes;
  uint32_t count;
  XORBIT_DEVICE uint32_t PositionAt(uint32_t index) const { return changes[index].position(); }
  XORBIT_DEVICE uint32_t OffsetOf(uint32_t index) const { return PositionAt(index) - PositionAt(0); }
  XORBIT_DEVICE uint32_t span() const { return OffsetOf(count - 1); }
  // Zeros after the last change.
  XORBIT_DEVICE StoredChange<Unit> Load(uint32_t index) const {
    if (index < count) return changes[index];
    return {};
  }
};
template <typename Unit>
XORBIT_DEVICE TileChangesOnDevice<Unit> ChangesOf(const SendOnDevice& send, const SendTile& tile) {
  return {reinterpret_cast<const StoredChange<Unit>*>(send.changes) + tile.first_change, tile.change_count};
}

XORBIT_DEVICE uint32_t VarintBytesOf(uint32_t value) {
  const uint32_t exponent = 31 - static_cast<uint32_t>(std::countl_zero(value | 1));
  return 1 + (exponent * 37 >> 8);  // exponent / 7
}

}  // namespace xorbit::cuda
