// The streaming fold must equal the plain one of the oracle, window by window, with and without values.
#include "delta/merged_source.h"

#include <gtest/gtest.h>

#include "change/list_source.h"
#include "delta/oracle.h"
#include "tensor/random_model.h"

namespace xorbit {
namespace {

std::vector<ElementChange> WithoutOlds(std::vector<ElementChange> changes) {
  for (ElementChange& change : changes) change.old_bits = 0;
  return changes;
}

// A segment that is one tensor of `element_count` units, and `step_count` + 1 states of it.
struct Chain {
  Layout layout;
  SegmentMap map;
  std::vector<RandomTensors> states;
  std::vector<std::vector<ElementChange>> lists;
  std::vector<std::unique_ptr<ListSource>> sources;
  std::vector<const ChangeSource*> inputs;
};

Chain MakeChain(Random& random, Dtype dtype, uint64_t element_count, int step_count, bool has_values) {
  Chain chain;
  // "b" gives the segment a border between tensors inside a window.
  chain.layout =
      Layout::Make({{.name = "a", .dtype = dtype, .shape = {element_count}}, {.name = "b", .dtype = dtype, .shape = {77}}})
          .value();
  chain.map =
      SegmentMap::Make(chain.layout, UnitBytesOf(dtype), 0, {WholeTensor(chain.layout, 0), WholeTensor(chain.layout, 1)})
          .value();
  chain.states.emplace_back(random, chain.layout);
  for (int step = 0; step < step_count; ++step) {
    chain.states.push_back(chain.states.back());
    // One-bit flips at this density cancel now and then.
    chain.states.back().Mutate(random, chain.layout, 300);
    const auto before = chain.states[chain.states.size() - 2].bytes();
    chain.lists.push_back(OracleDiff(chain.map, before, chain.states.back().bytes()));
    chain.sources.push_back(
        std::make_unique<ListSource>(chain.map.unit_bytes(), chain.map.element_count(), chain.lists.back(), has_values));
    chain.inputs.push_back(chain.sources.back().get());
  }
  return chain;
}

TEST(MergedSourceTest, EqualsTheOraclesFoldWithAndWithoutValues) {
  const uint64_t seed = std::random_device()();
  SCOPED_TRACE("seed " + std::to_string(seed));
  Random random(seed);
  for (const Dtype dtype : {Dtype::kU8, Dtype::kBF16, Dtype::kF32, Dtype::kF64}) {
    const Chain chain = MakeChain(random, dtype, kWindowElements + 1000, 4, dtype == Dtype::kBF16);
    const std::vector<ElementChange> folded = OracleFold(chain.lists);
    const auto masks_only = MergedSource::Make(chain.inputs, nullptr).value();
    EXPECT_FALSE(masks_only->has_values());
    EXPECT_EQ(ReadAllChanges(*masks_only).value(), WithoutOlds(folded));

    const auto base = chain.states.front().bytes();
    const FoldValues from_base = {FoldValues::Side::kBase, &chain.map, base};
    EXPECT_EQ(ReadAllChanges(*MergedSource::Make(chain.inputs, &from_base).value()).value(), folded);
    const auto target = chain.states.back().bytes();
    const FoldValues from_target = {FoldValues::Side::kTarget, &chain.map, target};
    EXPECT_EQ(ReadAllChanges(*MergedSource::Make(chain.inputs, &from_target).value()).value(), folded);
  }
}

TEST(MergedSourceTest, WindowsReadAloneAreTheSameWindows) {
  const uint64_t seed = std::random_device()();
  SCOPED_TRACE("seed " + std::to_string(seed));
  Random random(seed);
  const Chain chain = MakeChain(random, Dtype::kBF16, 2 * kWindowElements + 5, 3, false);
  const auto merged = MergedSource::Make(chain.inputs, nullptr).value();
  const std::vector<ElementChange> all = ReadAllChanges(*merged).value();
  size_t at = 0;
  WindowChanges window;
  window.Reserve(2, false);
  for (uint64_t w = 0; w < WindowCountOf(merged->element_count()); ++w) {
    ASSERT_TRUE(merged->Open(w, 1)->Next(&window).ok());
    for (uint32_t i = 0; i < window.count; ++i, ++at) {
      ASSERT_LT(at, all.size());
      ASSERT_EQ(all[at].element, w * kWindowElements + window.positions[i]);
      ASSERT_EQ(all[at].xor_bits, LoadLe<uint16_t>(window.xors.data() + size_t{i} * 2));
    }
  }
  EXPECT_EQ(at, all.size());
}

TEST(MergedSourceTest, ADeltaAndItsInverseCancelToNothing) {
  const ListSource there(4, 100, {{3, 1, 7}, {99, 2, 5}}, true);
  const ListSource back(4, 100, {{3, 6, 7}, {99, 7, 5}}, true);
  EXPECT_TRUE(ReadAllChanges(*MergedSource::Make({&there, &back}, nullptr).value()).value().empty());
}

TEST(MergedSourceTest, RefusesNothingAndSegmentsOfOtherShapes) {
  const ListSource a(2, 100, {}, false);
  const ListSource longer(2, 101, {}, false);
  const ListSource wider(4, 100, {}, false);
  EXPECT_EQ(MergedSource::Make({}, nullptr).status().code(), Code::kUsage);
  EXPECT_EQ(MergedSource::Make({&a, &longer}, nullptr).status().code(), Code::kRefused);
  EXPECT_EQ(MergedSource::Make({&a, &wider}, nullptr).status().code(), Code::kRefused);
}

// A source that breaks its contract or fails, as a decoder of damaged bytes might.
class BadSource : public ChangeSource {
 public:
  explicit BadSource(Status error) : error_(std::move(error)) {}
  uint32_t unit_bytes() const override { return 2; }
  uint64_t element_count() const override { return 10; }
  bool has_values() const override { return false; }
  std::unique_ptr<ChangeCursor> Open(uint64_t, uint64_t) const override { return std::make_unique<Cursor>(error_); }

 private:
  class Cursor : public ChangeCursor {
   public:
    explicit Cursor(Status error) : error_(std::move(error)) {}
    Status Next(WindowChanges* changes) override {
      changes->count = 1;
      changes->positions[0] = 10;
      changes->xors[0] = 1;
      return error_;
    }

   private:
    Status error_;
  };
  Status error_;
};

TEST(MergedSourceTest, PassesErrorsOnAndRefusesElementsPastTheEnd) {
  const BadSource failing(IoError("disk gone"));
  EXPECT_EQ(ReadAllChanges(*MergedSource::Make({&failing}, nullptr).value()).status().code(), Code::kIo);
  const BadSource past_the_end{Status()};
  EXPECT_EQ(ReadAllChanges(*MergedSource::Make({&past_the_end}, nullptr).value()).status().code(), Code::kCorrupt);
}

}  // namespace
}  // namespace xorbit
