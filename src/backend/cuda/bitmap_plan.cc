#include "backend/cuda/bitmap_plan.h"

#include <algorithm>

#include "backend/cuda/bitmap_form.h"

namespace xorbit::cuda {
namespace {

// What the form of a tile with boxes takes; 0 if it can have none.
uint64_t BitmapBytesOf(const LiveBox& box, const TileRecord& record, uint32_t unit_bytes) {
  const uint64_t element_count = uint64_t{record.span} + 1;
  const bool is_one_row = box.address != 0 && box.period == 0 && record.first + element_count <= box.end;
  if (!is_one_row || element_count * unit_bytes >= kMostBitmapTileBytes) return 0;
  return MakeBitmapForm(AddressIn(box, record.first, unit_bytes), record, unit_bytes).byte_count;
}

}  // namespace

void PlanBitmaps(uint32_t bytes_per_change, uint64_t budget_bytes, UpdatePlan* plan) {
  plan->bitmap_bytes = 0;
  plan->bitmap_tile_count = 0;
  const uint64_t room = std::min(budget_bytes, kNoBitmap * kBitmapAlignment);
  for (SegmentPlan& segment : plan->segments) {
    const uint32_t unit_bytes = segment.device.unit_bytes;
    for (size_t i = 0; i < segment.starts.size(); ++i) {
      TileStart& start = segment.starts[i];
      start.bitmap = kNoBitmap;
      if (start.box_index == kNoBox) continue;
      const auto record = LoadLe<TileRecord>(segment.segment->view.records.data() + i * sizeof(TileRecord));
      const uint64_t change_count = uint64_t{record.count_minus_1} + 1;
      if ((uint64_t{record.span} + 1) * unit_bytes > change_count * bytes_per_change) continue;
      const uint64_t bytes = BitmapBytesOf(segment.boxes[start.box_index], record, unit_bytes);
      if (bytes == 0 || bytes > room - plan->bitmap_bytes) continue;
      start.bitmap = static_cast<uint32_t>(plan->bitmap_bytes / kBitmapAlignment);
      plan->bitmap_bytes += bytes;
      ++plan->bitmap_tile_count;
    }
  }
}

}  // namespace xorbit::cuda
