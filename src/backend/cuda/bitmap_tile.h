// What one warp does with one dense tile besides pre-flight: lay it out, sum what it will meet, and change live memory by it.
#pragma once

#include "backend/cuda/bitmap_builder.h"
#include "backend/cuda/bitmap_walk.h"
#include "backend/cuda/tile_tasks.h"

namespace xorbit::cuda {

template <typename Unit>
XORBIT_DEVICE BitmapForm BitmapFormOf(const TileTask& task) {
  const LiveBox& box = task.segment->boxes[task.context.start.box_index];
  return MakeBitmapForm(AddressIn(box, task.view.record.first, sizeof(Unit)), task.view.record, sizeof(Unit));
}

XORBIT_DEVICE uint8_t* BitmapBytesOf(const TileTask& task) {
  return task.update->bitmaps + task.context.start.bitmap * kBitmapAlignment;
}

// After a pre-flight that accepted every tile. `window` as for BitmapBuilder.
template <typename Unit>
XORBIT_DEVICE void LayOutTile(const TileTask& task, WordVector* window) {
  if (!HasBitmap(task)) return;
  BitmapBuilder<Unit> builder(BitmapFormOf<Unit>(task), BitmapBytesOf(task), window);
  if (!IsSparse(task.view.record)) {
    DecodeOtherTile<Unit>(task.view, &builder);
  } else {
    const TileTables<Unit> tables = TablesOf<Unit>(task.view, task.segment->planes);
    if (tables.all_coded()) {
      DecodeSparseTile<true>(task.view, tables, &builder);
    } else {
      DecodeSparseTile<false>(task.view, tables, &builder);
    }
  }
  builder.Finish();
}

// After that, in another launch: leaves in local_sums what writing and comparing have to find.
template <typename Unit>
XORBIT_DEVICE void SumBitmapTile(const TileTask& task) {
  if (!HasBitmap(task)) return;
  const TileSums sums = BitmapWalk<Unit, false>(BitmapFormOf<Unit>(task), BitmapBytesOf(task)).Run();
  if (Lane() == 0) task.update->local_sums[task.tile_index] = sums;
}

// expect_after as for ApplyTile.
template <typename Unit, ApplyKind kKind>
XORBIT_DEVICE void ApplyBitmapTile(const TileTask& task, bool expect_after) {
  static_assert(kKind == ApplyKind::kReturningXor || kKind == ApplyKind::kXor || kKind == ApplyKind::kCompare);
  if (!HasBitmap(task)) return;
  constexpr bool kWrites = kKind != ApplyKind::kCompare;
  const TileSums met = BitmapWalk<Unit, kWrites>(BitmapFormOf<Unit>(task), BitmapBytesOf(task)).Run();
  if (kKind == ApplyKind::kXor || Lane() != 0) return;
  const TileSums expected = task.update->local_sums[task.tile_index];
  if (met.before == (expect_after ? expected.after : expected.before)) return;
  ReportTile(&task.update->counters[task.segment->payload_index].first_refused, task.tile_index, TileError::kDigest);
}

}  // namespace xorbit::cuda
