// Which form an update waits in, and that the budget holds whatever was expected.
#include "backend/cpu/update_form.h"

#include <gtest/gtest.h>

#include "backend/cpu/cpu_backend.h"
#include "backend/update_test_util.h"
#include "base/testing/seed.h"

namespace xorbit {
namespace {

TEST(ChooseLog, LocalisesWhatFitsAndKeepsOldValuesIfAsked) {
  PrepareOptions options{.localise_budget_bytes = 1'000};
  EXPECT_EQ(ChooseLog(options, 1'000), TouchLogKind::kXors);
  EXPECT_EQ(ChooseLog(options, 1'001), std::nullopt);
  options.keep_undo_log = true;
  EXPECT_EQ(ChooseLog(options, 1'001), TouchLogKind::kUndo);
  UndoMemory undo;
  options.undo_memory = &undo;
  EXPECT_EQ(ChooseLog(options, 1'001), TouchLogKind::kLastingUndo);
  options = {.localise_budget_bytes = 0};
  EXPECT_EQ(ChooseLog(options, 0), std::nullopt);
  EXPECT_EQ(ChooseLog({}, uint64_t{20} << 20), TouchLogKind::kXors);
}

// A quarter of the elements lie in the tensor that everybody has, the others in one of a group that may be absent.
class HeldShareTest : public testing::Test {
 protected:
  HeldShareTest()
      : random_(TestSeed()),
        layout_(Layout::Make({{.name = "a", .dtype = Dtype::kBF16, .shape = {2'000}},
                              {.name = "b", .dtype = Dtype::kBF16, .shape = {6'000}, .group = 1}},
                             {"model", "draft"})
                    .value()) {
    spec_.classes = {{.granule_bits = 16, .digit_count = 1, .digits = {LiveDigit{2'000, 1, 1}}}};
    spec_.regions = {{"a", 4'000}};
    spec_.pieces = {{.tensor_index = 0}};
    spec_.absent_groups = {1};
  }
  LiveMap Map() const { return LiveMap::Make(layout_, spec_).value(); }

  Random random_;
  Layout layout_;
  LiveMapSpec spec_;
};

TEST_F(HeldShareTest, CountsWhatIsPlaced) {
  EXPECT_EQ(HeldShare(layout_, CanonicalMap(layout_)), 1);
  EXPECT_EQ(HeldShare(layout_, Map()), 0.25);
  spec_.regions.push_back({"copy", 4'000});
  spec_.pieces.push_back({.tensor_index = 0, .region_index = 1, .counted = false});
  EXPECT_EQ(HeldShare(layout_, Map()), 0.5);
  spec_.pieces.clear();
  spec_.regions = {{"cast", 8'000}};
  spec_.shadows = {{.cast = Cast::kBf16ToF32, .piece = {.tensor_index = 0}}};
  EXPECT_EQ(HeldShare(layout_, Map()), 0.75);  // the kept copy, and 32 bits an element
}

TEST_F(HeldShareTest, TheBudgetHoldsWhereAllChangesAreHere) {
  const auto backend = MakeCpuBackend();
  const RandomTensors before(random_, layout_);
  RandomTensors after(random_, layout_);
  after.CopyFrom(before);
  after.Mutate(random_, layout_, 1000);
  std::ranges::copy(before.bytes()[1], after.mutable_bytes()[1].begin());
  const EncodedUpdate update(*backend, layout_, PlanOwners(layout_, 1, Split::kWhole).value(), before, after, CodecId::kSparse);
  const uint64_t expected = ExpectedLogBytes(update.payloads(), HeldShare(layout_, Map()));
  ASSERT_GT(update.change_count(), 500);
  ASSERT_EQ(expected, update.change_count() * 6 / 4);

  RandomLiveMemory live(random_, layout_, Map());
  live.Fill(after.bytes());
  const Buffer there = live.Snapshot();
  for (const uint64_t budget_bytes : {expected + 100, 6 * update.change_count() + 10'000}) {
    live.Fill(before.bytes());
    const auto prepared = backend->Prepare(layout_, update.payloads(), live.memory(), {.localise_budget_bytes = budget_bytes});
    ASSERT_TRUE(prepared.ok()) << prepared.status().message();
    EXPECT_LE((*prepared)->report().staged_bytes, budget_bytes);
    const bool localised = (*prepared)->report().staged_bytes > 6 * update.change_count();
    EXPECT_EQ(localised, budget_bytes > 6 * update.change_count());
    ASSERT_TRUE((*prepared)->Apply().ok());
    EXPECT_EQ(live.Snapshot(), there);
  }
}

}  // namespace
}  // namespace xorbit
