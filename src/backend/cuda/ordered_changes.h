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
    const uint32_t first = exists ? static_cast<uint32_t>(send.strips[strip].first_element) : 0;
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
      const uint32_t position = ShuffleFrom(first, holder);
      const uint64_t at = target + index;
      if (index >= total || at >= send.change_capacity || source >= send.stored_capacity) continue;
      send.positions[at] = position + send.stored_offsets[source];
      reinterpret_cast<Unit*>(send.olds)[at] = reinterpret_cast<const Unit*>(send.stored_olds)[source];
      reinterpret_cast<Unit*>(send.xors)[at] = reinterpret_cast<const Unit*>(send.stored_xors)[source];
    }
    target += total;
  }
}

// Where change `index` lies in the segment, in 64 bits. All lanes together, with the same index.
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
  return first + (send.positions[index] - static_cast<uint32_t>(first));
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

// What one warp reads of a tile's changes.
template <typename Unit>
struct TileChangesOnDevice {
  const uint32_t* positions;
  const Unit* olds;
  const Unit* xors;
  uint32_t count;
};
template <typename Unit>
XORBIT_DEVICE TileChangesOnDevice<Unit> ChangesOf(const SendOnDevice& send, const SendTile& tile) {
  return {send.positions + tile.first_change, reinterpret_cast<const Unit*>(send.olds) + tile.first_change,
          reinterpret_cast<const Unit*>(send.xors) + tile.first_change, tile.change_count};
}

}  // namespace xorbit::cuda
