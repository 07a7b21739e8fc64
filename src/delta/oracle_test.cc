// The oracle is checked by hand-made cases and by its own laws (chains fold into the direct diff), since nothing is above it.
#include "delta/oracle.h"

#include <gtest/gtest.h>

#include "base/testing/seed.h"
#include "tensor/random_model.h"

namespace xorbit {
namespace {

Layout TwoTensors() {
  return Layout::Make(
             {{.name = "a", .dtype = Dtype::kBF16, .shape = {2, 4}}, {.name = "b", .dtype = Dtype::kBF16, .shape = {3}}})
      .value();
}

TEST(OracleTest, DiffListsOldAndXorOfEachChangedElement) {
  const Layout layout = TwoTensors();
  // Columns 2 and 3 of "a", then all of "b": segment elements 0..3 and 4..6.
  const SegmentMap map = SegmentMap::Make(layout, 2, 0, {{0, 2, {{2, 4}, {2, 1}}}, {1, 0, {{3, 1}}}}).value();
  const Buffer old_a = {0, 0, 1, 0, 2, 0, 3, 0, 4, 0, 5, 0, 6, 0, 7, 0};
  const Buffer old_b = {8, 0, 9, 0, 10, 0};
  Buffer new_a = old_a;
  Buffer new_b = old_b;
  new_a[0] = 0xff;  // column 0: not in the segment
  new_a[7] = 0x80;  // row 0, column 3
  new_b[4] = 11;
  const std::vector<ConstBytes> old_tensors = {old_a, old_b};
  const std::vector<ConstBytes> new_tensors = {new_a, new_b};
  const std::vector<ElementChange> changes = OracleDiff(map, old_tensors, new_tensors);
  EXPECT_EQ(changes, (std::vector<ElementChange>{{1, 3, 0x8000}, {6, 10, 1}}));
}

TEST(OracleTest, ApplyRefusesAnotherBaseAndWritesNothing) {
  const Layout layout = TwoTensors();
  const SegmentMap map = SegmentMap::Make(layout, 2, 0, {{1, 0, {{3, 1}}}}).value();
  Buffer a(16);
  Buffer b = {8, 0, 9, 0, 10, 0};
  const Buffer before = b;
  const std::vector<MutableBytes> tensors = {a, b};
  const std::vector<ElementChange> changes = {{0, 8, 1}, {2, 11, 1}};
  EXPECT_EQ(OracleApply(map, changes, tensors).code(), Code::kRefused);
  EXPECT_EQ(b, before);
}

TEST(OracleTest, FoldDropsWhatCancelsAndKeepsTheFirstOldValue) {
  const std::vector<std::vector<ElementChange>> lists = {{{1, 5, 2}, {3, 7, 1}}, {{1, 7, 4}, {2, 9, 8}, {3, 6, 1}}};
  EXPECT_EQ(OracleFold(lists), (std::vector<ElementChange>{{1, 5, 6}, {2, 9, 8}}));
}

TEST(OracleTest, ChainsOnRandomModelsFoldIntoTheDirectDiffAndApply) {
  const uint64_t seed = TestSeed();
  SCOPED_TRACE("seed " + std::to_string(seed));
  Random random(seed);
  for (int round = 0; round < 10; ++round) {
    const Layout layout = RandomLayout(random, 8, 500);
    const std::vector<SegmentMap> maps = RandomSegments(random, layout);
    std::vector<RandomTensors> states(1, RandomTensors(random, layout));
    for (int step = 0; step < 3; ++step) {
      states.push_back(states.back());
      states.back().Mutate(random, layout, 200);
    }
    RandomTensors applied = states.front();
    const auto live = applied.mutable_bytes();
    StateDigest digest = OracleDigest(layout, states.front().bytes());
    for (const SegmentMap& map : maps) {
      std::vector<std::vector<ElementChange>> lists;
      for (size_t i = 1; i < states.size(); ++i) lists.push_back(OracleDiff(map, states[i - 1].bytes(), states[i].bytes()));
      const std::vector<ElementChange> direct = OracleDiff(map, states.front().bytes(), states.back().bytes());
      ASSERT_EQ(OracleFold(lists), direct);
      ASSERT_TRUE(OracleApply(map, direct, live).ok());
      for (const ElementChange& change : direct) {
        const xorbit::Run run = RunAt(map, change.element);
        const uint64_t key = TensorKeyOf(layout.tensors()[run.tensor_index].name);
        const uint64_t new_bits = change.old_bits ^ change.xor_bits;
        digest += DigestOfElement(key, map.unit_bytes(), run.tensor_element, new_bits) -
                  DigestOfElement(key, map.unit_bytes(), run.tensor_element, change.old_bits);
      }
    }
    const auto target = states.back().bytes();
    for (size_t i = 0; i < target.size(); ++i) {
      ASSERT_TRUE(std::equal(target[i].begin(), target[i].end(), live[i].begin())) << layout.tensors()[i].name;
    }
    // The owners' changes add up to the whole difference.
    ASSERT_EQ(digest, OracleDigest(layout, target));
  }
}

}  // namespace
}  // namespace xorbit
