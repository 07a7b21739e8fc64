// A segment's changes in order: how one warp puts those of a group of strips there, and how they are read afterwards.
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

// Where a warp's lines left their changes: each lane holds one line.
struct LinesInWarp {
  uint32_t end;     // changes of this lane's line and those before it
  uint64_t origin;  // modulo 2^64; plus an index: the place in the store
  // Of change `index` of the lines. All lanes together, each with its own.
  XORBIT_DEVICE uint64_t PlaceOf(uint32_t index) const {
    uint32_t holder = 0;  // the number of lines that end at or before the index
#ifdef __CUDACC__
#pragma unroll
#endif
    for (uint32_t step = kWarpLanes / 2; step > 0; step /= 2) {
      const uint32_t probe = ShuffleFrom(end, holder + step - 1);
      if (index >= probe) holder += step;
    }
    return ShuffleFrom(origin, holder) + index;
  }
};

// Copies changes of a warp's lines to their places in order: four times 32 at once, because one load after the other would wait
// for memory each time.
template <typename Unit>
XORBIT_DEVICE void GatherLines(const SendOnDevice& send, const LinesInWarp& lines, uint32_t total, uint64_t target) {
  constexpr uint32_t kAtOnce = 4;
  for (uint32_t base = 0; base < total; base += kAtOnce * kWarpLanes) {
    StoredChange<Unit> loaded[kAtOnce];
#ifdef __CUDACC__
#pragma unroll
#endif
    for (uint32_t j = 0; j < kAtOnce; ++j) {
      if (base + j * kWarpLanes >= total) continue;
      const uint32_t index = base + j * kWarpLanes + Lane();
      const uint64_t place = lines.PlaceOf(index);
      if (index < total) loaded[j] = LoadChange<Unit>(send.stored, place);
    }
#ifdef __CUDACC__
#pragma unroll
#endif
    for (uint32_t j = 0; j < kAtOnce; ++j) {
      const uint32_t index = base + j * kWarpLanes + Lane();
      if (index < total) StoreChange(send.changes, target + index, loaded[j]);
    }
  }
}

// Puts a group's changes in order.
template <typename Unit>
XORBIT_DEVICE void GatherGroup(const SendOnDevice& send, uint64_t group) {
  constexpr uint32_t kStripsAtOnce = kWarpLanes / kLinesPerStrip;
  uint64_t target = send.group_starts[group];
  if (send.group_starts[group + 1] == target || !HasRoom(send)) return;
  for (uint32_t batch = 0; batch < kStripsPerGroup / kStripsAtOnce; ++batch) {
    const uint64_t strip = group * kStripsPerGroup + batch * kStripsAtOnce + Lane() / kLinesPerStrip;
    const bool exists = strip < send.strip_count;
    const uint64_t line = exists ? send.lines[strip * kLinesPerStrip + Lane() % kLinesPerStrip] : 0;
    const uint32_t end = InclusiveSum(CountOfLine(line));
    const uint32_t total = ShuffleFrom(end, kWarpLanes - 1);
    GatherLines<Unit>(send, {end, StartOfLine(line) - (end - CountOfLine(line))}, total, target);
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
  return first + (LoadChange<Unit>(send.changes, index).position() - static_cast<uint32_t>(first));
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
