// A segment's changes in order: how one warp puts those of a group of strips there, and how they are read afterwards.
#pragma once

#include "backend/cuda/send_on_device.h"
#include "backend/cuda/warp.h"

namespace xorbit::cuda {

// Copies a group's changes, 32 at a time, each lane finding the line that its change comes from.
template <typename Unit>
XORBIT_DEVICE void GatherGroup(const SendOnDevice& send, uint64_t group) {
  constexpr uint32_t kStripsAtOnce = kWarpLanes / kLinesPerStrip;
  uint64_t target = send.group_starts[group];
  if (send.group_starts[group + 1] == target) return;
  for (uint32_t batch = 0; batch < kStripsPerGroup / kStripsAtOnce; ++batch) {
    const uint64_t strip = group * kStripsPerGroup + batch * kStripsAtOnce + Lane() / kLinesPerStrip;
    const bool exists = strip < send.strip_count;
    const uint64_t line = exists ? send.lines[strip * kLinesPerStrip + Lane() % kLinesPerStrip] : 0;
    const uint32_t end = InclusiveSum(CountOfLine(line));
    const uint32_t total = ShuffleFrom(end, kWarpLanes - 1);
    const uint64_t origin = StartOfLine(line) - (end - CountOfLine(line));  // modulo 2^64; plus an index: a stored change
    for (uint32_t base = 0; base < total; base += kWarpLanes) {
      const uint32_t index = base + Lane();
      uint32_t holder = 0;  // the number of lines that end at or before the index
      for (uint32_t step = kWarpLanes / 2; step > 0; step /= 2) {
        const uint32_t probe = ShuffleFrom(end, holder + step - 1);
        if (index >= probe) holder += step;
      }
      const uint64_t source = ShuffleFrom(origin, holder) + index;
      const uint64_t at = target + index;
      if (index >= total || at >= send.change_capacity || source >= send.stored_capacity) continue;
      reinterpret_cast<Change<Unit>*>(send.changes)[at] = reinterpret_cast<const Change<Unit>*>(send.stored)[source];
    }
    target += total;
  }
}

// Where change `index` lies in the segment, in 64 bits. All lanes together, with the same index.
template <typename Unit>
XORBIT_DEVICE uint64_t PositionOf(const SendOnDevice& send, uint64_t index) {
  // The last group that starts at or before the change, 32 probes at a time.
  uint64_t low = 0;
  for (uint64_t high = send.group_count; high - low > 1;) {
    const uint64_t step = (high - low + kWarpLanes - 1) / kWarpLanes;
    const uint64_t probe = low + Lane() * step;
    const uint32_t votes = Ballot(probe < high && send.group_starts[probe] <= index);
    low += (CountBits(votes) - 1) * step;
    high = low + step < high ? low + step : high;
  }
  const uint64_t first = send.strips[low * kStripsPerGroup].first_element;
  return first + (reinterpret_cast<const Change<Unit>*>(send.changes)[index].position - static_cast<uint32_t>(first));
}

XORBIT_DEVICE uint64_t TileCountOf(const SendOnDevice& send) {
  if (send.tiles != nullptr) return send.tile_count;
  const uint64_t changes = send.counters->change_count;
  return changes <= send.change_capacity ? (changes + kMaxTileChanges - 1) / kMaxTileChanges : 0;
}

XORBIT_DEVICE SendTile TileAt(const SendOnDevice& send, uint64_t index) {
  if (send.tiles != nullptr) return send.tiles[index];
  const uint64_t first = index * kMaxTileChanges;
  const uint64_t left = send.counters->change_count - first;
  return {first, left < kMaxTileChanges ? static_cast<uint32_t>(left) : kMaxTileChanges, index > 0 ? kTileFollows : 0};
}

// A tile's changes.
template <typename Unit>
struct TileChangesOnDevice {
  const Change<Unit>* changes;
  uint32_t count;
  XORBIT_DEVICE uint32_t OffsetOf(uint32_t index) const { return changes[index].position - changes[0].position; }
  XORBIT_DEVICE uint32_t span() const { return OffsetOf(count - 1); }
};
template <typename Unit>
XORBIT_DEVICE TileChangesOnDevice<Unit> ChangesOf(const SendOnDevice& send, const SendTile& tile) {
  return {reinterpret_cast<const Change<Unit>*>(send.changes) + tile.first_change, tile.change_count};
}

// One change, as the lane that it belongs to holds it.
template <typename Unit>
struct ChangeInLane {
  bool active;
  bool has_gap;
  uint32_t position;
  uint32_t gap;  // 0 without one
  Unit old;
  Unit bits;
};
// Change `index` of a tile, any index. With `follows` the tile's first change has a gap too. Loops load a group before they
// work on the one before it, because a warp alone cannot hide what memory takes.
template <typename Unit>
XORBIT_DEVICE ChangeInLane<Unit> LoadChange(const TileChangesOnDevice<Unit>& changes, uint32_t index, bool follows) {
  ChangeInLane<Unit> change{};
  change.active = index < changes.count;
  change.has_gap = change.active && (index > 0 || follows);
  if (change.active) {
    const Change<Unit> loaded = changes.changes[index];
    change.position = loaded.position;
    change.old = loaded.old;
    change.bits = loaded.bits;
  }
  if (change.has_gap) change.gap = change.position - changes.changes[static_cast<int64_t>(index) - 1].position - 1;
  return change;
}

}  // namespace xorbit::cuda
