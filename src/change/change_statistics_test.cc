// Small lists whose density, entropies, gaps and commonest values are worked out by hand.
#include "change/change_statistics.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "change/list_source.h"

namespace xorbit {
namespace {

using testing::Each;
using testing::ElementsAre;
using testing::Pair;

ChangeStatistics StatisticsOf(uint32_t unit_bytes, uint64_t element_count, std::vector<ElementChange> changes) {
  ChangeStatistics statistics(unit_bytes);
  EXPECT_TRUE(statistics.Add(ListSource(unit_bytes, element_count, std::move(changes), /*has_values=*/false)).ok());
  return statistics;
}

// `change_count` changes, every one of value 1, at the front.
std::vector<ElementChange> Ones(uint64_t change_count) {
  std::vector<ElementChange> changes;
  for (uint64_t i = 0; i < change_count; ++i) changes.push_back({.element = i, .xor_bits = 1});
  return changes;
}

TEST(ChangeStatistics, NothingIsZero) {
  for (const ChangeStatistics& statistics : {StatisticsOf(2, 0, {}), StatisticsOf(4, 1000, {})}) {
    EXPECT_EQ(statistics.change_count(), 0U);
    EXPECT_EQ(statistics.density(), 0);
    EXPECT_EQ(statistics.EntropyBits(), 0);
    EXPECT_THAT(statistics.gap_buckets(), Each(0U));
    EXPECT_TRUE(statistics.TopValues(5).empty());
  }
}

TEST(ChangeStatistics, DensityAndThePositionsEntropy) {
  // H(1/2) = 1 bit an element: two for each change.
  EXPECT_DOUBLE_EQ(StatisticsOf(2, 8, Ones(4)).density(), 0.5);
  EXPECT_DOUBLE_EQ(StatisticsOf(2, 8, Ones(4)).PositionEntropy(), 2);
  // H(1/4) = 1/4 * 2 + 3/4 * (2 - log2(3)).
  EXPECT_NEAR(StatisticsOf(2, 16, Ones(4)).PositionEntropy(), 3.24511249783653, 1e-12);
  EXPECT_EQ(StatisticsOf(2, 4, Ones(4)).PositionEntropy(), 0) << "all change: nothing to say";
}

TEST(ChangeStatistics, TheValuesEntropy) {
  EXPECT_EQ(StatisticsOf(2, 8, Ones(4)).ValueEntropy(), 0);
  // One half, one quarter, two eighths: 1/2 * 1 + 1/4 * 2 + 2/8 * 3.
  for (const uint32_t unit_bytes : {1U, 2U, 4U, 8U}) {
    std::vector<ElementChange> changes = Ones(8);
    changes[1].xor_bits = changes[6].xor_bits = 3;
    changes[2].xor_bits = 7;
    changes[5].xor_bits = uint64_t{1} << (8 * unit_bytes - 1);
    const ChangeStatistics statistics = StatisticsOf(unit_bytes, 16, changes);
    EXPECT_DOUBLE_EQ(statistics.ValueEntropy(), 1.75) << unit_bytes;
    EXPECT_DOUBLE_EQ(statistics.EntropyBits(), 8 * (2 + 1.75)) << unit_bytes;
    EXPECT_THAT(statistics.TopValues(2), ElementsAre(Pair(1, 4), Pair(3, 2)));
    EXPECT_THAT(statistics.TopValues(9),
                ElementsAre(Pair(1, 4), Pair(3, 2), Pair(7, 1), Pair(uint64_t{1} << (8 * unit_bytes - 1), 1)));
  }
}

// More different values than are counted whole: then planes are taken for independent, as nearly all of these are.
TEST(ChangeStatistics, ManyValuesAreCountedByPlane) {
  std::vector<ElementChange> changes;
  for (uint64_t value = 1; value <= 2 * 65536; ++value) changes.push_back({.element = value, .xor_bits = value << 8 | 0x80});
  const ChangeStatistics statistics = StatisticsOf(4, 1 << 20, changes);
  // The planes of 1 to 2^17: constant; uniform; uniform; and 1 for the upper half but its last, where it is 2.
  EXPECT_NEAR(statistics.ValueEntropy(), 8 + 8 + 1, 1e-3);
}

TEST(ChangeStatistics, ChangedBytes) {
  EXPECT_EQ(StatisticsOf(4, 100, {{3, 0, 0x01000001}, {5, 0, 0x00ff0000}, {90, 0, 0x01010101}}).changed_byte_count(), 7U);
}

TEST(ChangeStatistics, GapsAreSeenAcrossWindows) {
  const uint64_t window = kWindowElements;
  const ChangeStatistics statistics = StatisticsOf(
      2, 4 * window, {{window - 2, 0, 1}, {window - 1, 0, 1}, {window, 0, 1}, {window + 3, 0, 1}, {3 * window + 3, 0, 1}});
  std::array<uint64_t, kGapBucketCount> expected{};
  expected[0] = 2;   // 1 and 1
  expected[1] = 1;   // 3
  expected[17] = 1;  // 2^17
  EXPECT_EQ(statistics.gap_buckets(), expected);
}

TEST(ChangeStatistics, SegmentsAddUp) {
  ChangeStatistics statistics(2);
  for (const uint64_t element : {10, 20}) {
    EXPECT_TRUE(statistics.Add(ListSource(2, 50, {{element, 0, 5}, {element + 4, 0, 6}}, /*has_values=*/true)).ok());
  }
  EXPECT_EQ(statistics.element_count(), 100U);
  EXPECT_EQ(statistics.change_count(), 4U);
  EXPECT_EQ(statistics.gap_buckets()[2], 2U) << "the first change of a segment has no gap";
  EXPECT_THAT(statistics.TopValues(1), ElementsAre(Pair(5, 2)));
}

}  // namespace
}  // namespace xorbit
