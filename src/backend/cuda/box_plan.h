// Plans the boxes (LiveBox) by which warps find a segment's tiles in live memory. Pure.
#pragma once

#include <vector>

#include "backend/cuda/update_on_device.h"
#include "base/bytes.h"

namespace xorbit::cuda {

// Sets box_index of every tile's start and returns the boxes, ascending. A tile gets none if some of its elements are not to be
// found by boxes (copies, halves, places off their alignment or at a region's ragged end), or if it would take more than
// kMaxBoxesPerTile. `update` and `segment` point at tables in host memory.
inline constexpr uint32_t kMaxBoxesPerTile = 256;
std::vector<LiveBox> PlanBoxes(const UpdateOnDevice& update, const SegmentOnDevice& segment, ConstBytes records,
                               std::vector<TileStart>* starts);

}  // namespace xorbit::cuda
