// Shadows and tied names in an update: which of its tiles touch them, and what the device's findings mean. Pure.
//
// Few tensors are bound so. The tiles that hold some of them are decoded once more, by a kernel of its own (binding_tile.h), so
// that the kernels that all tiles go through have no such case.
#pragma once

#include <span>
#include <vector>

#include "backend/cuda/update_plan.h"

namespace xorbit::cuda {

// Records of a segment that reach into its elements [begin, end).
struct RecordRange {
  uint64_t begin;
  uint64_t end;
};
RecordRange RecordsIn(const EncodedSegmentView& view, uint64_t begin, uint64_t end);

// Sets ties and tie_of.
void PlanTies(const Layout& layout, UpdatePlan* update);

// Adds the tiles of a segment, which is to be the plan's next, to checked_tiles and cast_tiles.
void PlanBoundTiles(const SegmentPlan& segment, UpdatePlan* update);

// The update's segments cut down to these tiles, with a sentinel, as UpdateOnDevice::segments holds them. `segments` are the
// plan's, with their pointers.
std::vector<SegmentOnDevice> CutToTiles(const UpdatePlan& plan, std::span<const SegmentOnDevice> segments,
                                        std::span<const TileRange> tiles);

// kRefused, naming the first pair, if tied names would come apart. `ties`: the plan's, with their sums.
Status StatusOfTies(const UpdatePlan& plan, std::span<const TieOnDevice> ties);

}  // namespace xorbit::cuda
