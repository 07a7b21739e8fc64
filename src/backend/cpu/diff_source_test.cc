// The fast diff must find what the oracle finds, on any number of threads and at every SIMD level.
#include "backend/cpu/diff_source.h"

#include <gtest/gtest.h>

#include <thread>

#include "backend/cpu/digest_scan.h"
#include "base/testing/seed.h"
#include "change/list_source.h"
#include "codec/change_digest.h"
#include "delta/oracle.h"
#include "tensor/random_model.h"

namespace xorbit {
namespace {

class DiffSourceTest : public testing::TestWithParam<CpuLevel> {
 protected:
  void SetUp() override { ASSERT_TRUE(ForceCpuLevel(GetParam()).ok()); }
  void TearDown() override { ASSERT_TRUE(ForceCpuLevel(std::nullopt).ok()); }
  const uint64_t seed_ = TestSeed();
  Random random_{seed_};
};

// Two states of a random model, at different alignments.
struct Model {
  Layout layout;
  std::vector<SegmentMap> maps;
  RandomTensors old_tensors;
  RandomTensors new_tensors;
  std::vector<uint64_t> keys;

  Model(Random& random, uint64_t max_elements, uint64_t per_mille)
      : layout(RandomLayout(random, 12, max_elements)),
        maps(RandomSegments(random, layout)),
        old_tensors(random, layout),
        new_tensors(random, layout),
        keys(TensorKeysOf(layout)) {
    new_tensors.CopyFrom(old_tensors);
    new_tensors.Mutate(random, layout, per_mille);
  }
};

TEST_P(DiffSourceTest, RandomModelsDiffAsTheOracleSays) {
  SCOPED_TRACE("seed " + std::to_string(seed_));
  for (int round = 0; round < 12; ++round) {
    const Model model(random_, round % 4 == 0 ? 200'000 : 3'000, round % 3 == 0 ? 0 : 1 + random_() % 300);
    const auto old_bytes = model.old_tensors.bytes();
    const auto new_bytes = model.new_tensors.bytes();
    for (const SegmentMap& map : model.maps) {
      const SegmentBytes old_segment = SegmentBytes::InTensors(map, old_bytes);
      const SegmentBytes new_segment = SegmentBytes::InTensors(map, new_bytes);
      const std::vector<ElementChange> expected = OracleDiff(map, old_bytes, new_bytes);
      for (const auto mode : {DiffSource::BaseDigest::kSkip, DiffSource::BaseDigest::kAccumulate}) {
        const DiffSource source(map, old_segment, new_segment, model.keys, mode);
        ASSERT_EQ(ReadAllChanges(source).value(), expected);
        ASSERT_EQ(ReadAllChanges(source).value(), expected);
      }
    }
  }
}

// Each part's digest is that of its runs; together they are the segment's.
StateDigest SumOfParts(const Layout& layout, const SegmentMap& map, const SegmentBytes& bytes) {
  const std::vector<StateDigest> digests = DigestSegmentParts(layout, map, bytes, 2);
  std::vector<StateDigest> expected(map.parts().size());
  StateDigest sum;
  RunWalker walker(map, 0, map.element_count());
  Run run;
  while (walker.Next(&run)) {
    const uint64_t key = TensorKeyOf(layout.tensors()[run.tensor_index].name);
    expected[run.part_index] += DigestOfRange(key, run.tensor_element * map.unit_bytes(), bytes.Of(run));
  }
  EXPECT_EQ(digests, expected);
  for (const StateDigest& digest : digests) sum += digest;
  return sum;
}

TEST_P(DiffSourceTest, BaseDigestsOfOwnersAndFrozenTensorsAddUpToTheState) {
  SCOPED_TRACE("seed " + std::to_string(seed_));
  for (int round = 0; round < 8; ++round) {
    const Model model(random_, round % 4 == 0 ? 200'000 : 3'000, 10);
    const auto old_bytes = model.old_tensors.bytes();
    const auto new_bytes = model.new_tensors.bytes();
    StateDigest sum = ScanDigest(model.layout, old_bytes, ScanScope::kFrozen, 1);
    for (const SegmentMap& map : model.maps) {
      const SegmentBytes old_segment = SegmentBytes::InTensors(map, old_bytes);
      const SegmentBytes new_segment = SegmentBytes::InTensors(map, new_bytes);
      const DiffSource source(map, old_segment, new_segment, model.keys, DiffSource::BaseDigest::kAccumulate);
      // Windows read twice, once, or never all count once.
      WindowChanges changes;
      changes.Reserve(map.unit_bytes(), true);
      for (uint64_t window = 0; window < WindowCountOf(map.element_count()); ++window) {
        for (uint64_t times = random_() % 3; times > 0; --times) ASSERT_TRUE(source.Open(window, 1)->Next(&changes).ok());
      }
      const StateDigest digest = source.FinishBaseDigest();
      ASSERT_EQ(source.FinishBaseDigest(), digest);
      ASSERT_EQ(SumOfParts(model.layout, map, old_segment), digest);
      sum += digest;
    }
    ASSERT_EQ(sum, OracleDigest(model.layout, old_bytes));
  }
}

TEST_P(DiffSourceTest, ScansEqualTheOracleOnAnyThreads) {
  SCOPED_TRACE("seed " + std::to_string(seed_));
  for (int round = 0; round < 6; ++round) {
    const Model model(random_, round == 0 ? 2'000'000 : 5'000, 0);
    const auto bytes = model.old_tensors.bytes();
    const StateDigest expected = OracleDigest(model.layout, bytes);
    ASSERT_EQ(ScanDigest(model.layout, bytes, ScanScope::kAll, 1), expected);
    ASSERT_EQ(ScanDigest(model.layout, bytes, ScanScope::kAll, 3), expected);
  }
}

TEST(ScanDigestTest, NothingIsZero) {
  const Layout layout = Layout::Make({{.name = "empty", .dtype = Dtype::kF32, .shape = {0}}}).value();
  const std::vector<ConstBytes> tensors(1);
  EXPECT_EQ(ScanDigest(layout, tensors, ScanScope::kAll, 2), StateDigest{});
}

TEST_P(DiffSourceTest, ConcurrentCursorsCountEachWindowOnce) {
  SCOPED_TRACE("seed " + std::to_string(seed_));
  const Layout layout = Layout::Make({{.name = "w", .dtype = Dtype::kBF16, .shape = {40 * kWindowElements + 17}}}).value();
  const RandomTensors tensors(random_, layout);
  const auto bytes = tensors.bytes();
  const std::vector<uint64_t> keys = TensorKeysOf(layout);
  const SegmentMap map = SegmentMap::Make(layout, 2, 0, {WholeTensor(layout, 0)}).value();
  const SegmentBytes segment = SegmentBytes::InTensors(map, bytes);
  const DiffSource source(map, segment, segment, keys, DiffSource::BaseDigest::kAccumulate);
  {
    std::vector<std::jthread> readers;
    for (int i = 0; i < 3; ++i) {
      readers.emplace_back([&] {
        if (ReadAllChanges(source).value().empty()) return;
        ADD_FAILURE() << "equal states differ";
      });
    }
  }
  EXPECT_EQ(source.FinishBaseDigest(), OracleDigest(layout, bytes));
}

INSTANTIATE_TEST_SUITE_P(Levels, DiffSourceTest, testing::ValuesIn(AvailableCpuLevels()),
                         [](const auto& level) { return std::string(NameOf(level.param)); });

}  // namespace
}  // namespace xorbit
