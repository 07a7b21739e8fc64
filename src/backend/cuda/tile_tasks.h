// What one warp does with one tile when preparing, applying or comparing: decode, visit, and settle what was found.
#pragma once

#include "backend/cuda/stream_visitor.h"

namespace xorbit::cuda {

// One tile of an update; the same in all lanes.
struct TileTask {
  const UpdateOnDevice* update;
  const SegmentOnDevice* segment;
  uint64_t tile_index;  // of all segments' tiles
  TileView view;
  TileContext context;
};

// Tile `record_index` of a segment whose tables have been copied to `tables`.
XORBIT_DEVICE TileTask MakeTileTask(const UpdateOnDevice& update, const SegmentOnDevice& segment, uint64_t record_index,
                                    const SymbolTable* tables, const uint64_t* word_factors) {
  TileTask task{};
  task.update = &update;
  task.segment = &segment;
  task.tile_index = segment.first_tile + record_index;
  const TileRecord record = segment.records[record_index];
  const bool is_last = record_index + 1 == segment.record_count;
  const uint64_t end = is_last ? segment.body_bytes : segment.records[record_index + 1].offset;
  task.view = {record, segment.body + record.offset, end - record.offset, tables, &segment};
  task.context = {&update, &segment, record, update.starts[task.tile_index], word_factors};
  return task;
}

XORBIT_DEVICE void ReportTile(uint64_t* first, uint64_t tile_index, TileError error) {
  AtomicMin(first, tile_index << 8 | static_cast<uint64_t>(error));
}

// The sums that a record must show when the delta is taken in the update's direction.
XORBIT_DEVICE bool Matches(const UpdateOnDevice& update, const TileRecord& record, const TileSums& sums) {
  const bool inverse = update.inverse != 0;
  return sums.before == (inverse ? record.after : record.before) && sums.after == (inverse ? record.before : record.after);
}

template <typename Unit, bool kKeepLog>
XORBIT_DEVICE void PreflightTile(const TileTask& task) {
  PreflightVisitor<Unit, kKeepLog> visitor(task.context);
  const TileError error = DecodeTile<Unit>(task.view, &visitor);
  const TileSums local = visitor.LocalSums();
  const TileSums counted = task.segment->has_replicas != 0 ? visitor.CountedSums() : local;
  const uint64_t lane1_change = visitor.Lane1Change();
  const uint64_t local_count = visitor.LocalCount();
  const bool replicas_differ = task.segment->has_replicas != 0 && visitor.ReplicasDiffer();
  if (Lane() != 0) return;
  PayloadCounters& counters = task.update->counters[task.segment->payload_index];
  task.update->local_sums[task.tile_index] = local;
  task.update->counted_sums[task.tile_index] = counted;
  AtomicAdd(&counters.local_change_count, local_count);
  AtomicAdd(&counters.lane0_change, counted.after - counted.before);
  AtomicAdd(&counters.lane1_change, lane1_change);
  const bool compare = task.segment->has_digests != 0 && task.update->partial == 0;
  if (error != TileError::kNone) {
    ReportTile(&counters.first_corrupt, task.tile_index, error);
  } else if (replicas_differ) {
    ReportTile(&counters.first_refused, task.tile_index, TileError::kReplica);
  } else if (compare && !Matches(*task.update, task.view.record, counted)) {
    ReportTile(&counters.first_refused, task.tile_index, TileError::kDigest);
  }
}

// What apply found in a tile.
struct TileFindings {
  TileError error;
  uint64_t sum;  // lane 0 over the values that it met, where it returns them
};

// kMayStream: tiles that are dense enough go through `window` (StreamVisitor).
template <typename Unit, ApplyKind kKind, bool kMayStream>
XORBIT_DEVICE TileFindings WriteTile(const TileTask& task, [[maybe_unused]] uint32_t* window) {
  if constexpr (kMayStream) {
    static_assert(kKind == ApplyKind::kReturningXor || kKind == ApplyKind::kXor);
    StreamRange range{};
    if (FindStreamRange<Unit>(task.context, &range)) {
      StreamVisitor<Unit, kKind == ApplyKind::kReturningXor> visitor(task.context, range, window);
      const TileError error = DecodeTile<Unit>(task.view, &visitor);
      return {error, visitor.Finish()};
    }
  }
  ApplyVisitor<Unit, kKind> visitor(task.context);
  const TileError error = DecodeTile<Unit>(task.view, &visitor);
  return {error, visitor.Found()};
}

// expect_after: a comparison expects the target's values, not the old ones.
template <typename Unit, ApplyKind kKind, bool kMayStream>
XORBIT_DEVICE void ApplyTile(const TileTask& task, bool expect_after, uint32_t* window) {
  const auto [error, found] = WriteTile<Unit, kKind, kMayStream>(task, window);
  if (Lane() != 0) return;
  PayloadCounters& counters = task.update->counters[task.segment->payload_index];
  // Pre-flight has accepted these bytes, so they have changed since, in memory that is ours alone.
  if (error != TileError::kNone) ReportTile(&counters.first_corrupt, task.tile_index, error);
  if (kKind != ApplyKind::kReturningXor && kKind != ApplyKind::kCompare) return;
  const TileSums expected = task.update->local_sums[task.tile_index];
  if (found == (expect_after ? expected.after : expected.before)) return;
  ReportTile(&counters.first_refused, task.tile_index, TileError::kDigest);
}

}  // namespace xorbit::cuda
