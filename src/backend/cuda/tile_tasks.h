// What one warp does with one tile when preparing, applying or comparing: decode, visit, and settle what was found.
#pragma once

#include "backend/cuda/tile_visitors.h"

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
  const TileSums sums = visitor.Sums();
  const uint64_t lane1_change = visitor.Lane1Change();
  const uint64_t local_count = visitor.LocalCount();
  if (Lane() != 0) return;
  PayloadCounters& counters = task.update->counters[task.segment->payload_index];
  task.update->sums[task.tile_index] = sums;
  AtomicAdd(&counters.local_change_count, local_count);
  AtomicAdd(&counters.lane0_change, sums.after - sums.before);
  AtomicAdd(&counters.lane1_change, lane1_change);
  if (error != TileError::kNone) {
    ReportTile(&counters.first_corrupt, task.tile_index, error);
  } else if (task.segment->has_digests != 0 && task.update->partial == 0 && !Matches(*task.update, task.view.record, sums)) {
    ReportTile(&counters.first_refused, task.tile_index, TileError::kDigest);
  }
}

// expect_after: a comparison expects the target's values, not the old ones.
template <typename Unit, ApplyKind kKind>
XORBIT_DEVICE void ApplyTile(const TileTask& task, bool expect_after) {
  ApplyVisitor<Unit, kKind> visitor(task.context);
  const TileError error = DecodeTile<Unit>(task.view, &visitor);
  const uint64_t found = visitor.Found();
  if (Lane() != 0) return;
  PayloadCounters& counters = task.update->counters[task.segment->payload_index];
  // Pre-flight has accepted these bytes, so they have changed since, in memory that is ours alone.
  if (error != TileError::kNone) ReportTile(&counters.first_corrupt, task.tile_index, error);
  if (kKind != ApplyKind::kReturningXor && kKind != ApplyKind::kCompare) return;
  const TileSums expected = task.update->sums[task.tile_index];
  if (found == (expect_after ? expected.after : expected.before)) return;
  ReportTile(&counters.first_refused, task.tile_index, TileError::kDigest);
}

}  // namespace xorbit::cuda
