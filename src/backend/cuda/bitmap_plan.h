// Which tiles of an update are laid out in pre-flight (bitmap_form.h), and where. Pure.
#pragma once

#include "backend/cuda/update_plan.h"

namespace xorbit::cuda {

// Of live memory. Measured: where changes are rarer, changing them one by one is faster.
inline constexpr uint32_t kBitmapBytesPerChange = 24;

// Gives a form to tiles with a change in `bytes_per_change` or fewer, in their order, as long as all forms take no more than
// `budget_bytes`, and to no others: only tiles in one row of one box can have one. Sets the plan's bitmap_bytes and
// bitmap_tile_count.
void PlanBitmaps(uint32_t bytes_per_change, uint64_t budget_bytes, UpdatePlan* plan);

}  // namespace xorbit::cuda
