// Where tiles are cut: by the changes alone, the same on every machine.
#include "codec/sparse_plan.h"

#include <gtest/gtest.h>

namespace xorbit {
namespace {

std::vector<WindowSummary> Windows(std::initializer_list<uint32_t> counts) {
  std::vector<WindowSummary> windows;
  for (const uint32_t count : counts) windows.push_back({count, 0, 0});
  return windows;
}

std::vector<std::array<uint64_t, 4>> Plan(const std::vector<WindowSummary>& windows, uint64_t element_count,
                                          uint32_t unit_bytes) {
  std::vector<std::array<uint64_t, 4>> tiles;
  for (const PlannedTile& tile : PlanTiles(windows, element_count, unit_bytes)) {
    tiles.push_back({tile.window_index, tile.first_change, tile.change_count, tile.dense ? 1U : 0U});
  }
  return tiles;
}

using Tiles = std::vector<std::array<uint64_t, 4>>;

TEST(SparsePlan, MergesSparseWindowsAndCutsTheirRuns) {
  EXPECT_EQ(Plan(Windows({3000, 0, 3000, 5000}), 4 * kWindowElements, 1),
            (Tiles{{0, 0, 4096, 0}, {2, 1096, 4096, 0}, {3, 2192, 2808, 0}}));
  EXPECT_EQ(Plan(Windows({4096, 1}), 2 * kWindowElements, 1), (Tiles{{0, 0, 4096, 0}, {1, 0, 1, 0}}));
  EXPECT_EQ(Plan(Windows({0, 0}), 2 * kWindowElements, 1), Tiles{});
}

TEST(SparsePlan, EndsRunsAtDenseWindows) {
  // At unit 1 half of the elements makes a window dense, at unit 2 two thirds.
  EXPECT_EQ(Plan(Windows({10, 32768, 10}), 3 * kWindowElements, 1), (Tiles{{0, 0, 10, 0}, {1, 0, 32768, 1}, {2, 0, 10, 0}}));
  EXPECT_EQ(Plan(Windows({10, 43691, 0, 10}), 4 * kWindowElements, 2), (Tiles{{0, 0, 10, 0}, {1, 0, 43691, 1}, {3, 0, 10, 0}}));
  EXPECT_EQ(Plan(Windows({4000, 43690}), 2 * kWindowElements, 2).size(), 12U);
  EXPECT_EQ(Plan(Windows({10, 1}), kWindowElements + 2, 1), (Tiles{{0, 0, 10, 0}, {1, 0, 1, 1}}));  // a last window of two
}

TEST(SparsePlan, KeepsTilesWithin65536Windows) {
  std::vector<WindowSummary> windows(3 * kMaxTileWindows);
  windows[5].change_count = 1;
  windows[5 + kMaxTileWindows - 1].change_count = 1;
  windows[5 + kMaxTileWindows].change_count = 1;
  EXPECT_EQ(Plan(windows, windows.size() * kWindowElements, 1), (Tiles{{5, 0, 2, 0}, {5 + kMaxTileWindows, 0, 1, 0}}));
}

}  // namespace
}  // namespace xorbit
