// One warp counts the symbols of one tile, as PlanTiles cuts it: what the tables are made from.
#pragma once

#include "backend/cuda/ordered_changes.h"

namespace xorbit::cuda {

// Of one block, in the order of SendHistograms.
XORBIT_DEVICE void AddSymbol(uint32_t* counts, bool active, uint32_t symbol) {
  // High bytes of floating-point changes are mostly equal, and 32 additions to one word would wait for each other.
  const uint32_t leader = ShuffleFrom(symbol, 0);
  const bool same = active && symbol == leader;
  const uint32_t votes = Ballot(same);
  if (Lane() == 0 && votes != 0) AtomicAdd(&counts[leader], CountBits(votes));
  if (active && !same) AtomicAdd(&counts[symbol], 1U);
}

// Whether PlanTiles would have cut a tile that was cut without looking at windows. All lanes together.
template <typename Unit>
XORBIT_DEVICE bool IsTooLong(const SendOnDevice& send, const SendTile& tile) {
  const uint64_t first = PositionOf<Unit>(send, tile.first_change);
  const uint64_t last = PositionOf<Unit>(send, tile.first_change + tile.change_count - 1);
  return last / kWindowElements - first / kWindowElements >= kMaxTileWindows;
}

template <typename Unit>
XORBIT_DEVICE void CountTile(const SendOnDevice& send, uint64_t tile_index, uint32_t* counts) {
  const SendTile tile = TileAt(send, tile_index);
  const TileChangesOnDevice<Unit> changes = ChangesOf<Unit>(send, tile);
  const bool dense = (tile.flags & kTileDense) != 0;
  const uint64_t first = PositionOf<Unit>(send, tile.first_change);
  const uint32_t span = changes.span();
  bool counts_first = false;
  if ((tile.flags & kTileFollows) != 0) counts_first = first - PositionOf<Unit>(send, tile.first_change - 1) - 1 <= UINT32_MAX;
  uint32_t* const planes = counts + (dense ? 1 + sizeof(Unit) : 1) * kValueSymbols;
  ChangeInLane<Unit> next = LoadChange(changes, Lane(), counts_first);
  for (uint32_t base = 0; base < changes.count; base += kWarpLanes) {
    const ChangeInLane<Unit> change = next;
    next = LoadChange(changes, base + kWarpLanes + Lane(), counts_first);
    if (!dense && change.has_gap) AtomicAdd(&counts[GapSymbolOf(change.gap)], 1U);  // mostly different from lane to lane
    for (uint32_t plane = 0; plane < sizeof(Unit); ++plane) {
      AddSymbol(planes + plane * kValueSymbols, change.active, static_cast<uint32_t>(change.bits >> (8 * plane)) & 0xff);
    }
  }
  const bool too_long = send.tiles == nullptr && IsTooLong<Unit>(send, tile);
  if (Lane() != 0) return;
  if (too_long) AtomicAdd(&send.counters->has_long_tile, uint64_t{1});
  if (dense) {
    for (uint32_t plane = 0; plane < sizeof(Unit); ++plane) {
      AtomicAdd(&planes[plane * kValueSymbols], span + 1 - changes.count);
    }
  }
}

}  // namespace xorbit::cuda
