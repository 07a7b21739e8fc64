// Where tiles begin and end: a pure function of the number of changes in each window, so that CPU and GPU, one pass and two,
// any number of threads cut alike.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "codec/sparse_format.h"

namespace xorbit {

// What the first pass keeps of a window.
struct WindowSummary {
  uint32_t change_count = 0;
  uint16_t first = 0;  // offset of the first and last change in the window, if there is one
  uint16_t last = 0;
};

// Changes that are coded together: the `change_count` changes from change `first_change` of window `window_index` on.
struct PlannedTile {
  uint64_t window_index = 0;
  uint32_t first_change = 0;
  uint32_t change_count = 0;
  bool dense = false;
};

// Each dense window is one tile. Consecutive sparse windows are a run, whose changes are cut into tiles of kMaxTileChanges; a
// tile also ends where the next change lies kMaxTileWindows or more windows after the window of its first one.
std::vector<PlannedTile> PlanTiles(std::span<const WindowSummary> windows, uint64_t element_count, uint32_t unit_bytes);

}  // namespace xorbit
