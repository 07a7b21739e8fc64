// A store that is put back and published into again while engines are on their way: one number stands for two states, of which
// no driver may make one company.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "drive/testing/model_engine.h"

namespace xorbit {
namespace {

using testing::HasSubstr;

constexpr uint64_t kTarget = 3;

void Rewrite(Fleet* fleet) {
  for (ModelEngine& engine : fleet->engines) ++engine.writing;
}
void RunUntil(Fleet* fleet, DrivenUpdate* update, size_t index, SessionState state) {
  for (int turn = 0; turn < 100 && fleet->engines[index].session.state != state; ++turn, fleet->now_ms += 10) {
    fleet->Turn(update, index);
  }
  ASSERT_EQ(fleet->engines[index].session.state, state);
}
void ExpectLeftOut(const DrivenUpdate& update, size_t index) {
  EXPECT_EQ(update.engines()[index].standing, Standing::kDropped) << NameOf(update.engines()[index].standing);
  EXPECT_THAT(update.engines()[index].why, HasSubstr("version 3 is another state there: the stream was rewritten"));
}
// Whatever it is that they hold, it is one state.
void ExpectAllServe(const Fleet& fleet, int writing) {
  for (const ModelEngine& engine : fleet.engines) {
    EXPECT_TRUE(engine.serves(kTarget));
    EXPECT_EQ(engine.held_writing, writing);
  }
}

TEST(OtherStateTest, ASessionThatADeadDriverHasPreparedIsEndedAndNotJoined) {
  for (const bool is_strict : {true, false}) {
    for (const bool has_leases : {true, false}) {
      Fleet fleet(3);
      for (ModelEngine& engine : fleet.engines) engine.lease_ms = 100'000, engine.has_leases = has_leases;
      DrivenUpdate dead = fleet.Begin(/*is_strict=*/true, kTarget);
      for (size_t i = 1; i < 3; ++i) fleet.Turn(&dead, i);  // it asks, so that there are roles
      RunUntil(&fleet, &dead, 0, SessionState::kPrepared);
      Rewrite(&fleet);
      DrivenUpdate update = fleet.Begin(is_strict, kTarget, /*writing=*/1);
      fleet.RunToEnd(&update);
      ExpectLeftOut(update, 0);
      EXPECT_TRUE(fleet.engines[0].serves(0));
      EXPECT_EQ(fleet.engines[0].session.state, SessionState::kAborted);
      for (size_t i = 1; i < 3; ++i) EXPECT_TRUE(fleet.engines[i].serves(is_strict ? 0 : kTarget));
      EXPECT_EQ(update.abort_reason().empty(), !is_strict);
      DrivenUpdate again = fleet.Begin(is_strict, kTarget, /*writing=*/1);
      fleet.RunToEnd(&again);
      ExpectAllServe(fleet, 1);
    }
  }
}

// The driver has read the old record, and so has one engine.
TEST(OtherStateTest, AnEngineThatPreparesAfterTheOthersIsNotTakenForOneOfThem) {
  for (const bool is_strict : {true, false}) {
    Fleet fleet(3);
    DrivenUpdate update = fleet.Begin(is_strict, kTarget);
    for (size_t i = 1; i < 3; ++i) fleet.Turn(&update, i);
    RunUntil(&fleet, &update, 0, SessionState::kPrepared);
    Rewrite(&fleet);
    fleet.RunToEnd(&update);
    for (size_t i = 1; i < 3; ++i) {
      if (i == 1 || !is_strict) ExpectLeftOut(update, i);  // the first aborts a strict one
      EXPECT_TRUE(fleet.engines[i].serves(0));
      EXPECT_FALSE(IsUnderWay(fleet.engines[i].session.state));
    }
    EXPECT_TRUE(fleet.engines[0].serves(is_strict ? 0 : kTarget));
  }
}

TEST(OtherStateTest, AnEngineThatHasAppliedOrServesAnotherStateIsNotCurrent) {
  for (const bool is_strict : {true, false}) {
    for (const SessionState state : {SessionState::kApplied, SessionState::kResumed}) {
      Fleet fleet(3);
      DrivenUpdate other = fleet.Begin(/*is_strict=*/false, kTarget);
      RunUntil(&fleet, &other, 1, state);
      Rewrite(&fleet);
      DrivenUpdate update = fleet.Begin(is_strict, kTarget, /*writing=*/1);
      fleet.RunToEnd(&update);
      ExpectLeftOut(update, 1);
      EXPECT_THAT(update.engines()[1].why, HasSubstr("start it anew"));
      for (const size_t i : {0, 2}) EXPECT_TRUE(fleet.engines[i].serves(is_strict ? 0 : kTarget));
      fleet.engines[1].Restart(0);
      DrivenUpdate again = fleet.Begin(is_strict, kTarget, /*writing=*/1);
      fleet.RunToEnd(&again);
      ExpectAllServe(fleet, 1);
    }
  }
}

}  // namespace
}  // namespace xorbit
