#include "backend/cuda/send_memory.h"

#include <algorithm>

#include "backend/cuda/arena.h"
#include "backend/cuda/change_record.h"
#include "backend/cuda/send_window.h"
#include "base/checked_math.h"

namespace xorbit::cuda {
namespace {

// Small requests waste less than an eighth of each piece of the store, and each warp leaves one unfinished. No more warps take
// one than there are lines, or changes.
uint64_t StoredCountFor(const SendPlan& plan, uint64_t change_count) {
  const uint64_t unfinished = std::min<uint64_t>({kMostDiffWarps, plan.strips.size() * kLinesPerStrip, change_count}) * 512;
  return change_count + change_count / 7 + unfinished;
}

// Sparse tiles hold kMaxTileChanges, but one in a run, or before a long gap; dense ones fill a window mostly.
uint64_t TileCountFor(const SendPlan& plan, const SendSizes& sizes, uint64_t change_count) {
  const uint64_t most = change_count / kMaxTileChanges + 2 * plan.window_count() + 2;
  return std::min(most + sizes.halved_count, change_count);
}

}  // namespace

SendMemory PlaceSend(const SendPlan& plan, const SendSizes& sizes, uint8_t* memory_dev) {
  Arena arena(memory_dev);
  SendMemory memory;
  const uint64_t changes = std::min(sizes.change_count, plan.element_count);
  const uint64_t tile_count = TileCountFor(plan, sizes, changes);
  memory.room = {changes, StoredCountFor(plan, changes), tile_count,
                 changes * MostBodyBytesPerChange(plan.unit_bytes) + tile_count * kTileAlignment};
  memory.strips = arena.Take<Strip>(plan.strips.size());
  if (sizes.slot_bytes > 0) {
    memory.home_strips = arena.Take<Strip>(plan.strips.size());
    memory.slots = arena.Take<uint8_t>(kWindowSlots * sizes.slot_bytes);
  }
  memory.spans = arena.Take<TensorSpan>(plan.spans.size());
  memory.tiles = arena.Take<SendTile>(tile_count);
  memory.tables = arena.Take<SendTable>(kMostTables);
  SendOnDevice& device = memory.device;
  device.unit_bytes = plan.unit_bytes;
  device.element_count = plan.element_count;
  device.strips = memory.strips;
  device.strip_count = plan.strips.size();
  device.group_count = plan.group_count();
  device.spans = memory.spans;
  device.span_count = plan.spans.size() - 1;

  const uint64_t cleared_at = arena.used_bytes();
  device.counters = arena.Take<SendCounters>(1);
  device.histograms = arena.Take<SendHistograms>(1);
  device.group_starts = arena.Take<uint64_t>(plan.group_count() + 1);
  device.cursors = arena.Take<DiffCursor>(kMostDiffWarps);
  device.window_counts = arena.Take<uint32_t>(plan.window_count());
  memory.cleared = memory_dev == nullptr ? nullptr : memory_dev + cleared_at;
  memory.cleared_bytes = arena.used_bytes() - cleared_at;

  device.lines = arena.Take<uint64_t>(plan.strips.size() * kLinesPerStrip);
  device.stored = arena.Take<uint8_t>(memory.room.stored_count * ChangeBytesOf(plan.unit_bytes));
  device.stored_capacity = memory.room.stored_count;
  device.changes = arena.Take<uint8_t>(changes * ChangeBytesOf(plan.unit_bytes));
  device.change_capacity = changes;
  device.tile_capacity = tile_count;
  device.surveys = arena.Take<TileSurvey>(tile_count);
  device.chunk_sums = arena.Take<uint64_t>(std::max(plan.group_count(), tile_count));
  device.records = arena.Take<TileRecord>(tile_count);
  device.codes = arena.Take<TileCode>(tile_count);
  device.scratch = arena.Take<uint8_t>(changes * ScratchBytesPerChange(plan.unit_bytes));
  device.body = arena.Take<uint8_t>(memory.room.body_bytes);
  device.body_capacity = memory.room.body_bytes;
  memory.used_bytes = arena.used_bytes();
  return memory;
}

}  // namespace xorbit::cuda
