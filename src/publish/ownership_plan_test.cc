// Whoever declares what: every element must get one publisher, equal duplicates witnesses, and anything else a refusal.
#include "publish/ownership_plan.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tensor/tensor_test_util.h"

namespace xorbit {
namespace {

using testing::HasSubstr;

Part Rows(uint32_t tensor, uint64_t begin, uint64_t end) { return {tensor, begin, {Digit{end - begin, 1}}}; }

class OwnershipPlanTest : public testing::Test {
 protected:
  const Layout layout_ =
      MakeLayout({Tensor("a", Dtype::kBF16, {64}), Tensor("b", Dtype::kF32, {16}), Tensor("c", Dtype::kBF16, {10})});
};

TEST_F(OwnershipPlanTest, PartsInAnyOrderBecomeSegments) {
  const std::vector<std::vector<Part>> declared = {{Rows(2, 0, 10), Rows(1, 0, 8), Rows(0, 0, 32)},
                                                   {Rows(0, 32, 64), Rows(1, 8, 16)}};
  const auto plans = PlanOwnership(layout_, declared).value();
  ASSERT_EQ(plans.size(), 2U);
  ASSERT_EQ(plans[0].owned.size(), 2U);
  EXPECT_EQ(plans[0].owned[0].parts(), (std::vector<Part>{Rows(0, 0, 32), Rows(2, 0, 10)}));
  EXPECT_EQ(plans[0].declared[0], (std::vector<uint32_t>{2, 0}));
  EXPECT_EQ(plans[0].declared[1], (std::vector<uint32_t>{1}));
  EXPECT_TRUE(plans[0].shared.empty());
  EXPECT_EQ(plans[1].owner_index, 1U);
  EXPECT_EQ(plans[1].owner_count, 2U);
}

TEST_F(OwnershipPlanTest, TheLowestRankPublishesADuplicateAndAllBearWitness) {
  const std::vector<std::vector<Part>> declared = {
      {Rows(0, 0, 64)}, {Rows(1, 0, 16), Rows(2, 0, 10)}, {Rows(2, 0, 10)}, {Rows(2, 0, 10), Rows(0, 0, 64)}};
  const auto plans = PlanOwnership(layout_, declared).value();
  EXPECT_TRUE(plans[2].owned.empty());
  EXPECT_TRUE(plans[3].owned.empty());
  ASSERT_EQ(plans[1].shared.size(), 1U);
  EXPECT_EQ(plans[1].shared[0].owner_index, (std::vector<uint32_t>{1}));
  EXPECT_EQ(plans[1].shared[0].declared, (std::vector<uint32_t>{1}));
  ASSERT_EQ(plans[3].shared.size(), 1U);  // both are BF16
  EXPECT_EQ(plans[3].shared[0].map.parts(), (std::vector<Part>{Rows(0, 0, 64), Rows(2, 0, 10)}));
  EXPECT_EQ(plans[3].shared[0].owner_index, (std::vector<uint32_t>{0, 1}));
  EXPECT_EQ(plans[3].shared[0].declared, (std::vector<uint32_t>{1, 0}));
  EXPECT_EQ(plans[3].shared[0].part_sha256[1], plans[1].shared[0].part_sha256[0]);
  EXPECT_NE(plans[3].shared[0].part_sha256[0], plans[3].shared[0].part_sha256[1]);
}

TEST_F(OwnershipPlanTest, ARanksOwnSecondCopyBearsWitnessToo) {
  const std::vector<std::vector<Part>> declared = {
      {Rows(0, 0, 64), Rows(1, 0, 16), Rows(0, 0, 64), Rows(2, 0, 10), Rows(2, 0, 10)}};
  const RankPlan plan = PlanOwnership(layout_, declared).value().front();
  ASSERT_EQ(plan.shared.size(), 2U);
  EXPECT_EQ(plan.shared[0].declared, (std::vector<uint32_t>{0, 3}));
  EXPECT_EQ(plan.shared[1].declared, (std::vector<uint32_t>{2, 4}));
}

TEST_F(OwnershipPlanTest, HolesAndOverlapsAreRefusedByName) {
  EXPECT_THAT(PlanOwnership(layout_, std::vector<std::vector<Part>>{{Rows(0, 0, 64), Rows(1, 0, 16)}}).status().message(),
              HasSubstr("'c'"));
  const std::vector<std::vector<Part>> overlapping = {{Rows(0, 0, 40), Rows(1, 0, 16)}, {Rows(0, 39, 64), Rows(2, 0, 10)}};
  EXPECT_THAT(PlanOwnership(layout_, overlapping).status().message(), HasSubstr("'a'"));
  EXPECT_EQ(PlanOwnership(layout_, overlapping).status().code(), Code::kRefused);
}

TEST_F(OwnershipPlanTest, WhatIsFrozenOrUnknownIsNotDeclared) {
  TensorSpec frozen = Tensor("f", Dtype::kBF16, {4});
  frozen.frozen = true;
  const Layout layout = MakeLayout({frozen});
  EXPECT_EQ(PlanOwnership(layout, std::vector<std::vector<Part>>{{Rows(0, 0, 4)}}).status().code(), Code::kUsage);
  EXPECT_EQ(PlanOwnership(layout_, std::vector<std::vector<Part>>{{Rows(3, 0, 4)}}).status().message(),
            "rank 0 declares a tensor that the layout does not have");
  EXPECT_EQ(PlanOwnership(layout_, {}).status().code(), Code::kUsage);
}

}  // namespace
}  // namespace xorbit
