// What one warp does with one tile when preparing, applying or comparing: decode, visit, and settle what was found.
#pragma once

#include "backend/cuda/box_visitors.h"
#include "backend/cuda/tile_modes.h"

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

// What is wrong with a tile that decodes.
template <typename Unit>
XORBIT_DEVICE TileError CompareTile(const TileTask& task, const PreflightFindings& found) {
  if (task.segment->is_absent != 0) return TileError::kNone;
  if (found.replicas_differ) return TileError::kReplica;
  if (task.update->partial != 0) return TileError::kNone;
  const uint32_t count = uint32_t{task.view.record.count_minus_1} + 1;
  if (found.counted_bits != count * static_cast<uint32_t>(8 * sizeof(Unit))) return TileError::kIncomplete;
  const bool differs = task.segment->has_digests != 0 && !Matches(*task.update, task.view.record, found.counted);
  return differs ? TileError::kDigest : TileError::kNone;
}

// What a visitor found in a tile, and what is wrong with the tile's bytes.
template <typename Findings>
struct TileOutcome {
  TileError error;
  Findings found;
};

XORBIT_DEVICE bool IsSparse(const TileRecord& record) { return record.mode == static_cast<uint8_t>(TileMode::kSparse); }

// A sparse tile without raw planes: nearly all of them.
template <typename Unit, typename Visitor, typename Findings>
XORBIT_DEVICE TileOutcome<Findings> VisitCoded(const TileTask& task, const TileTables<Unit>& tables) {
  Visitor visitor(task.context);
  const TileError error = DecodeSparseTile<true>(task.view, tables, &visitor);
  return {error, visitor.Finish()};
}

// Any other. A call, so that what it needs takes nothing from the loop that matters.
template <typename Unit, typename Visitor, typename Findings>
XORBIT_DEVICE_RARE TileOutcome<Findings> VisitOther(TileTask task) {
  Visitor visitor(task.context);
  const TileError error = IsSparse(task.view.record)
                              ? DecodeSparseTile<false>(task.view, TablesOf<Unit>(task.view, task.segment->planes), &visitor)
                              : DecodeOtherTile<Unit>(task.view, &visitor);
  return {error, visitor.Finish()};
}

// By boxes, if the tile has them.
template <typename Unit, typename ByBoxes, typename Spread, typename Findings>
XORBIT_DEVICE TileOutcome<Findings> VisitTile(const TileTask& task) {
  if (task.context.start.box_index == kNoBox) return VisitOther<Unit, Spread, Findings>(task);
  const TileTables<Unit> tables = TablesOf<Unit>(task.view, task.segment->planes);
  if (!IsSparse(task.view.record) || !tables.all_coded()) return VisitOther<Unit, ByBoxes, Findings>(task);
  return VisitCoded<Unit, ByBoxes, Findings>(task, tables);
}

template <typename Unit, bool kKeepLog>
XORBIT_DEVICE void PreflightTile(const TileTask& task) {
  const auto [error, found] =
      VisitTile<Unit, BoxPreflight<Unit, kKeepLog>, SpreadPreflight<Unit, kKeepLog>, PreflightFindings>(task);
  if (Lane() != 0) return;
  PayloadCounters& counters = task.update->counters[task.segment->payload_index];
  task.update->local_sums[task.tile_index] = found.local;
  task.update->counted_sums[task.tile_index] = found.counted;
  AtomicAdd(&counters.local_change_count, found.local_bits / (8 * sizeof(Unit)));
  AtomicAdd(&counters.lane0_change, found.counted.after - found.counted.before);
  AtomicAdd(&counters.lane1_change, found.lane1_change);
  if (error != TileError::kNone) return ReportTile(&counters.first_corrupt, task.tile_index, error);
  const TileError refused = CompareTile<Unit>(task, found);
  if (refused != TileError::kNone) ReportTile(&counters.first_refused, task.tile_index, refused);
}

XORBIT_DEVICE bool HasBitmap(const TileTask& task) {
  return task.update->bitmaps != nullptr && task.context.start.bitmap != kNoBitmap;
}

// A tile that was not laid out. expect_after: a comparison expects the target's values, not the old ones.
template <typename Unit, ApplyKind kKind>
XORBIT_DEVICE void ApplyTile(const TileTask& task, bool expect_after) {
  if (HasBitmap(task)) return;
  const auto [error, met] = VisitTile<Unit, BoxApply<Unit, kKind>, SpreadApply<Unit, kKind>, ApplyFindings>(task);
  if (Lane() != 0) return;
  PayloadCounters& counters = task.update->counters[task.segment->payload_index];
  // Pre-flight has accepted these bytes, so they have changed since, in memory that is ours alone.
  if (error != TileError::kNone) ReportTile(&counters.first_corrupt, task.tile_index, error);
  bool differs = kKind == ApplyKind::kStore && met.misfits;
  if constexpr (kKind == ApplyKind::kReturningXor || kKind == ApplyKind::kCompare) {
    const TileSums expected = task.update->local_sums[task.tile_index];
    differs = met.sum != (expect_after ? expected.after : expected.before);
  }
  if (differs) ReportTile(&counters.first_refused, task.tile_index, TileError::kDigest);
}

}  // namespace xorbit::cuda
