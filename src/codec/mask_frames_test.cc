// The frame grid by example: a segment of two parts, one of them a column shard.
#include "codec/mask_frames.h"

#include <gtest/gtest.h>

namespace xorbit {
namespace {

// Two tensors: one whole, one as a column shard of 3 x 4 elements.
SegmentMap TwoParts() {
  const Layout layout =
      Layout::Make({{.name = "a", .dtype = Dtype::kU8, .shape = {10}}, {.name = "b", .dtype = Dtype::kU8, .shape = {3, 8}}})
          .value();
  return SegmentMap::Make(layout, 1, 0, {WholeTensor(layout, 0), {1, 4, {{3, 8}, {4, 1}}}}).value();
}

TEST(FrameGrid, StartsAnewInEveryPart) {
  const SegmentMap map = TwoParts();
  const FrameGrid grid(map, 4);
  const std::vector<ElementRange> expected = {{0, 4}, {4, 8}, {8, 10}, {10, 14}, {14, 18}, {18, 22}};
  uint64_t at = 0;
  for (const ElementRange& frame : expected) {
    for (; at < frame.end; ++at) EXPECT_EQ(grid.FrameOf(at), frame) << at;
  }
  EXPECT_EQ(at, map.element_count());
}

TEST(FrameGrid, StretchesTileTheSegmentAtFrameBorders) {
  const SegmentMap map = TwoParts();
  const FrameGrid grid(map, 4);
  EXPECT_EQ(grid.Stretches(1), (std::vector<ElementRange>{{0, 4}, {4, 8}, {8, 10}, {10, 14}, {14, 18}, {18, 22}}));
  EXPECT_EQ(grid.Stretches(5), (std::vector<ElementRange>{{0, 8}, {8, 14}, {14, 22}}));
  EXPECT_EQ(grid.Stretches(100), (std::vector<ElementRange>{{0, 22}}));
}

}  // namespace
}  // namespace xorbit
