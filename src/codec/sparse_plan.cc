#include "codec/sparse_plan.h"

#include <algorithm>

namespace xorbit {

std::vector<PlannedTile> PlanTiles(std::span<const WindowSummary> windows, uint64_t element_count, uint32_t unit_bytes) {
  std::vector<PlannedTile> tiles;
  PlannedTile open;  // of the current run; without changes there is none
  const auto close = [&] {
    if (open.change_count > 0) tiles.push_back(open);
    open = {};
  };
  for (uint64_t w = 0; w < windows.size(); ++w) {
    const uint32_t count = windows[w].change_count;
    if (IsDenseWindow(WindowElementsAt(element_count, w), count, unit_bytes)) {
      close();
      tiles.push_back({w, 0, count, true});
      continue;
    }
    if (count > 0 && w - open.window_index >= kMaxTileWindows) close();
    for (uint32_t at = 0; at < count;) {
      if (open.change_count == 0) open = {w, at, 0, false};
      const uint32_t taken = std::min(count - at, kMaxTileChanges - open.change_count);
      open.change_count += taken;
      at += taken;
      if (open.change_count == kMaxTileChanges) close();
    }
  }
  close();
  return tiles;
}

}  // namespace xorbit
