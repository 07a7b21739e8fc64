// The state machine against engines that are models: they keep sessions as xorbit serve does, lose replies, die, start again at
// their base, and are left by drivers that die. Thousands of random courses, and the promises checked at every step.
#include "drive/driven_update.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>

#include "base/testing/seed.h"
#include "drive/testing/model_engine.h"

namespace xorbit {
namespace {

using testing::HasSubstr;

TEST(DrivenUpdateTest, AllGoTogether) {
  for (const bool is_strict : {true, false}) {
    Fleet fleet(4);
    DrivenUpdate update = fleet.Begin(is_strict, 3);
    fleet.RunToEnd(&update);
    for (const ModelEngine& engine : fleet.engines) EXPECT_TRUE(engine.serves(3));
    for (const DrivenEngine& engine : update.engines()) EXPECT_EQ(engine.standing, Standing::kCurrent) << engine.why;
  }
}

TEST(DrivenUpdateTest, WhateverFailsBeforeTheDecisionKeepsAllAtTheOldVersion) {
  for (int trouble = 0; trouble < 2; ++trouble) {
    Fleet fleet(3);
    (trouble == 0 ? fleet.engines[1].is_dead : fleet.engines[1].fails_to_prepare) = true;
    DrivenUpdate update = fleet.Begin(/*is_strict=*/true, 3);
    fleet.RunToEnd(&update);
    EXPECT_THAT(update.abort_reason(), HasSubstr("engine 2"));
    EXPECT_TRUE(fleet.engines[0].serves(0) && fleet.engines[2].serves(0));
    EXPECT_EQ(update.engines()[0].standing, Standing::kKept);
    EXPECT_EQ(update.engines()[1].standing, Standing::kDropped);
  }
}

// Its version 3 is another state.
TEST(DrivenUpdateTest, AnEngineWhoseStreamBeganWithOtherWeightsIsNotTakenForOneOfTheCohort) {
  for (const bool is_strict : {true, false}) {
    Fleet fleet(3);
    fleet.engines[1].base_fingerprint = "4567";
    fleet.engines[1].Restart(3);
    DrivenUpdate update = fleet.Begin(is_strict, 3);
    fleet.RunToEnd(&update);
    EXPECT_EQ(update.engines()[1].standing, Standing::kDropped);
    EXPECT_THAT(update.engines()[1].why, HasSubstr("began with other weights"));
    EXPECT_TRUE(fleet.engines[0].serves(is_strict ? 0 : 3));
  }
}

TEST(DrivenUpdateTest, WhoFailsAfterTheDecisionIsFencedAndRecoversByOneCall) {
  Fleet fleet(3);
  fleet.engines[1].fails_to_apply = true;
  DrivenUpdate update = fleet.Begin(/*is_strict=*/true, 3);
  fleet.RunToEnd(&update);
  EXPECT_TRUE(fleet.engines[0].serves(3) && fleet.engines[2].serves(3));
  EXPECT_TRUE(fleet.engines[1].is_paused);
  EXPECT_THAT(update.engines()[1].why, HasSubstr("its gate is closed"));
  fleet.engines[1].fails_to_apply = false;
  DrivenUpdate again = fleet.Begin(/*is_strict=*/true, 3);
  fleet.RunToEnd(&again);
  EXPECT_TRUE(fleet.engines[1].serves(3));
  EXPECT_TRUE(again.engines()[1].was_recovered);
}

// Wherever the driver is stopped, it leaves nobody standing: all go where the decision says.
TEST(DrivenUpdateTest, ADriverThatIsStoppedLeavesEveryEngineServing) {
  uint64_t old_count = 0;
  uint64_t new_count = 0;
  for (const bool is_strict : {true, false}) {
    for (int turn_count = 0; turn_count < 40; ++turn_count) {
      Fleet fleet(3);
      DrivenUpdate update = fleet.Begin(is_strict, 3);
      for (int turn = 0; turn < turn_count; ++turn, fleet.now_ms += 10) fleet.Turn(&update, static_cast<size_t>(turn) % 3);
      const bool was_decided = update.is_decided();
      update.GiveUp("stopped", fleet.now_ms);
      fleet.RunToEnd(&update);
      EXPECT_EQ(update.abort_reason(), was_decided ? "" : "stopped");
      for (const ModelEngine& engine : fleet.engines) {
        EXPECT_TRUE(is_strict ? engine.serves(was_decided ? 3 : 0) : engine.serves(0) || engine.serves(3)) << turn_count;
        EXPECT_FALSE(IsUnderWay(engine.session.state)) << turn_count;
        (engine.applied == 0 ? old_count : new_count) += 1;
      }
    }
  }
  EXPECT_GT(old_count, 10);
  EXPECT_GT(new_count, 10);
}

// It has applied, but its caches cannot be flushed, say: whoever stands still is not current.
TEST(DrivenUpdateTest, WhoDoesNotGoOnIsDroppedAndLetGoByTheNextDriver) {
  for (const bool is_strict : {true, false}) {
    Fleet fleet(3);
    fleet.engines[1].fails_to_go_on = true;
    DrivenUpdate update = fleet.Begin(is_strict, 3);
    fleet.RunToEnd(&update);
    EXPECT_EQ(update.engines()[1].standing, Standing::kDropped);
    EXPECT_TRUE(fleet.engines[0].serves(3) && fleet.engines[2].serves(3));
    fleet.engines[1].fails_to_go_on = false;
    DrivenUpdate again = fleet.Begin(is_strict, 3);
    fleet.RunToEnd(&again);
    EXPECT_EQ(again.engines()[1].standing, Standing::kCurrent) << again.engines()[1].why;
    EXPECT_TRUE(fleet.engines[1].serves(3));
  }
}

// It flushes its caches for longer than a driver would wait for a sign of life.
TEST(DrivenUpdateTest, ALongResumeIsNoSilence) {
  for (const bool is_strict : {true, false}) {
    Fleet fleet(1);
    DrivenUpdate update = fleet.Begin(is_strict, 3);
    for (; update.engines()[0].standing != Standing::kApplied; fleet.now_ms += 10) fleet.Turn(&update, 0);
    const DriveOrder order = update.Next(0, fleet.now_ms);
    ASSERT_EQ(order.step, DriveStep::kResume);
    (void)fleet.engines[0].Answer(order);  // the answer comes too late
    fleet.now_ms += 3 * ModelRules(is_strict).silence_ms;
    update.NoteReply(0, order.step, EngineReply(), fleet.now_ms);
    fleet.RunToEnd(&update);
    EXPECT_EQ(update.engines()[0].standing, Standing::kCurrent) << update.engines()[0].why;
    EXPECT_TRUE(fleet.engines[0].serves(3));
  }
}

TEST(DrivenUpdateTest, WhoNeverAnswersAResumeIsGivenUpOn) {
  for (const bool is_strict : {true, false}) {
    Fleet fleet(1);
    DrivenUpdate update = fleet.Begin(is_strict, 3);
    for (; update.engines()[0].standing != Standing::kApplied; fleet.now_ms += 10) fleet.Turn(&update, 0);
    int call_count = 0;
    for (; !IsOver(update.engines()[0].standing) && call_count < 20; ++call_count) {
      const DriveOrder order = update.Next(0, fleet.now_ms);
      fleet.now_ms += ModelRules(is_strict).apply_ms;
      if (order.step != DriveStep::kWait && order.step != DriveStep::kOver) {
        update.NoteReply(0, order.step, EngineReply(), fleet.now_ms);
      }
    }
    EXPECT_EQ(update.engines()[0].standing, Standing::kDropped);
    EXPECT_LT(call_count, 6);
  }
}

// As when the newest payload is damaged, round after round: all were dropped before, so none is required, and still nobody is
// stopped for the sake of others who do not go either.
TEST(DrivenUpdateTest, WhereNobodyGoesNobodyIsFenced) {
  for (const std::vector<bool>& is_required : {std::vector<bool>{false, false}, std::vector<bool>{false, true}}) {
    Fleet fleet(2);
    for (ModelEngine& engine : fleet.engines) engine.fails_to_prepare = true;
    DrivenUpdate update = fleet.Begin(/*is_strict=*/true, 3, 0, is_required);
    fleet.RunToEnd(&update);
    EXPECT_NE(update.abort_reason(), "");
    EXPECT_FALSE(update.is_decided());
    for (const ModelEngine& engine : fleet.engines) EXPECT_TRUE(engine.serves(0));
  }
}

TEST(DrivenUpdateTest, WhoCannotComeAlongIsFencedOnceTheOthersGo) {
  Fleet fleet(3);
  fleet.engines[0].fails_to_prepare = true;
  fleet.engines[2].prepare_ms = 1'000;  // long after the first has failed
  DrivenUpdate update = fleet.Begin(/*is_strict=*/true, 3, 0, {false, true, true});
  for (; !update.is_decided(); fleet.now_ms += 10) {
    for (size_t i = 0; i < 3; ++i) fleet.Turn(&update, i);
    EXPECT_TRUE(update.is_decided() || !fleet.engines[0].is_paused);
  }
  fleet.RunToEnd(&update);
  EXPECT_TRUE(fleet.engines[0].is_paused);
  EXPECT_EQ(update.engines()[0].standing, Standing::kDropped);
  EXPECT_TRUE(fleet.engines[1].serves(3) && fleet.engines[2].serves(3));
}

TEST(DrivenUpdateTest, OneEngineByTwoAddressesIsNotTakenForTwo) {
  for (const bool is_strict : {true, false}) {
    Fleet fleet(2);
    fleet.engines[1] = fleet.engines[0];
    DrivenUpdate update = fleet.Begin(is_strict, 3);
    fleet.RunToEnd(&update);
    EXPECT_EQ(update.engines()[1].standing, Standing::kDropped);
    EXPECT_THAT(update.engines()[1].why, HasSubstr("it is engine 1 by another address"));
    EXPECT_EQ(update.abort_reason() != "", is_strict);
  }
}

// Whoever has gone by itself decides nothing for the others: if one of them cannot come along, it is kept and not fenced.
TEST(DrivenUpdateTest, AnEngineOfAnIndependentDriverIsNoDecision) {
  Fleet fleet(3);
  DrivenUpdate alone = fleet.Begin(/*is_strict=*/false, 3);
  for (; alone.engines()[0].standing != Standing::kApplied; fleet.now_ms += 10) fleet.Turn(&alone, 0);
  fleet.engines[1].fails_to_prepare = true;
  DrivenUpdate together = fleet.Begin(/*is_strict=*/true, 3);
  fleet.RunToEnd(&together);
  EXPECT_TRUE(fleet.engines[0].serves(3));
  EXPECT_TRUE(fleet.engines[1].serves(0) && fleet.engines[2].serves(0));
  EXPECT_NE(together.abort_reason(), "");
  EXPECT_EQ(together.engines()[0].standing, Standing::kCurrent) << together.engines()[0].why;
}

TEST(DrivenUpdateTest, IndependentEnginesDoNotWaitForAStraggler) {
  Fleet fleet(3);
  fleet.engines[1].is_dead = true;
  DrivenUpdate update = fleet.Begin(/*is_strict=*/false, 3);
  fleet.RunToEnd(&update);
  EXPECT_TRUE(fleet.engines[0].serves(3) && fleet.engines[2].serves(3));
  EXPECT_EQ(update.engines()[1].standing, Standing::kDropped);
}

TEST(DrivenUpdateTest, AnEngineThatWasStartedAgainCatchesUpAndComesAlong) {
  Fleet fleet(3);
  for (ModelEngine& engine : fleet.engines) engine.Restart(5);
  fleet.engines[2].Restart(0);
  DrivenUpdate update = fleet.Begin(/*is_strict=*/true, 6);
  fleet.RunToEnd(&update);
  for (const ModelEngine& engine : fleet.engines) EXPECT_TRUE(engine.serves(6));
  EXPECT_TRUE(update.engines()[2].was_recovered);
}

TEST(DrivenUpdateTest, ANewDriverTakesOverWhatADeadOneHasLeft) {
  // The dead driver has let two of three apply.
  Fleet fleet(3);
  DrivenUpdate dead = fleet.Begin(/*is_strict=*/true, 3);
  while (fleet.engines[1].session.state != SessionState::kApplied) {
    for (size_t i = 0; i < 2; ++i) fleet.Turn(&dead, i);
    if (fleet.engines[2].session.state != SessionState::kPrepared) fleet.Turn(&dead, 2);
    fleet.now_ms += 10;
  }
  ASSERT_EQ(fleet.engines[2].applied, 0U);
  DrivenUpdate next = fleet.Begin(/*is_strict=*/true, 3);
  fleet.RunToEnd(&next);
  for (const ModelEngine& engine : fleet.engines) EXPECT_TRUE(engine.serves(3));
  EXPECT_EQ(next.engines()[0].session_id, "drive-1");

  // One that was on its way to another version: its sessions are ended first.
  DrivenUpdate other = fleet.Begin(/*is_strict=*/true, 4);
  for (int i = 0; i < 3; ++i) {
    for (size_t engine = 0; engine < 3; ++engine) fleet.Turn(&other, engine);
  }
  DrivenUpdate newest = fleet.Begin(/*is_strict=*/true, 5);
  fleet.RunToEnd(&newest);
  for (const ModelEngine& engine : fleet.engines) EXPECT_TRUE(engine.serves(5));
}

// Whoever asks for patience gets it, once after another, but not for ever.
TEST(DrivenUpdateTest, AnEngineThatAsksForPatienceIsAskedAgain) {
  for (const bool is_strict : {true, false}) {
    Fleet fleet(3);
    DrivenUpdate update = fleet.Begin(is_strict, 3);
    for (int turn = 0; turn < 300; ++turn, fleet.now_ms += 10) {
      fleet.engines[1].is_patient = turn % 30 != 0;
      for (size_t i = 0; i < 3; ++i) fleet.Turn(&update, i);
    }
    fleet.engines[1].is_patient = true;
    fleet.RunToEnd(&update);
    for (const DrivenEngine& engine : update.engines()) EXPECT_EQ(engine.standing, Standing::kCurrent) << engine.why;
    fleet.engines[1].is_patient = false;
    DrivenUpdate again = fleet.Begin(is_strict, 4);
    fleet.RunToEnd(&again);
    EXPECT_EQ(again.engines()[1].standing, Standing::kDropped);
    EXPECT_THAT(again.engines()[1].why, HasSubstr("(429) for"));
    EXPECT_TRUE(fleet.engines[0].serves(is_strict ? 3 : 4));
  }
}

TEST(DrivenUpdateTest, AnotherDriversSessionIsWaitedForWhileItLives) {
  for (const bool is_strict : {true, false}) {
    Fleet fleet(2);
    DrivenUpdate other = fleet.Begin(/*is_strict=*/true, 4);
    for (int i = 0; i < 3; ++i) fleet.Turn(&other, 0), fleet.Turn(&other, 1);
    ASSERT_TRUE(IsUnderWay(fleet.engines[0].session.state));
    fleet.engines[0].lease_ms = fleet.engines[1].lease_ms = INT32_MAX;  // as if it said something all the time
    DriveOrder poll;
    poll.step = DriveStep::kPoll;
    poll.session_id = "drive-1";
    for (ModelEngine& engine : fleet.engines) (void)engine.Answer(poll);
    DrivenUpdate update = fleet.Begin(is_strict, 3);
    fleet.RunToEnd(&update);
    for (size_t i = 0; i < 2; ++i) {
      EXPECT_EQ(update.engines()[i].standing, Standing::kKept);
      EXPECT_THAT(update.engines()[i].why + update.abort_reason(), HasSubstr("session 'drive-1' to version 4"));
      EXPECT_EQ(fleet.engines[i].session.state, SessionState::kPrepared);
    }
  }
}

TEST(DrivenUpdateTest, ASessionWithoutALeaseIsEnded) {
  Fleet fleet(2);
  for (ModelEngine& engine : fleet.engines) engine.has_leases = false;
  DrivenUpdate other = fleet.Begin(/*is_strict=*/true, 4);
  for (int i = 0; i < 3; ++i) fleet.Turn(&other, 0), fleet.Turn(&other, 1);
  ASSERT_TRUE(IsUnderWay(fleet.engines[0].session.state));
  DrivenUpdate update = fleet.Begin(/*is_strict=*/true, 3);
  fleet.RunToEnd(&update);
  for (const ModelEngine& engine : fleet.engines) EXPECT_TRUE(engine.serves(3));
}

TEST(DrivenUpdateTest, WhoWantsTheNewestTakesNobodyBack) {
  for (const bool is_strict : {true, false}) {
    Fleet fleet(3);
    for (ModelEngine& engine : fleet.engines) engine.Restart(7);
    DriveRules rules = ModelRules(is_strict);
    rules.wants_newest = true;
    DrivenUpdate update(rules, {std::string(kModelStream), std::string(kModelBase)}, ModelTarget(6), "a", {true, true, true},
                        fleet.now_ms);
    fleet.RunToEnd(&update);
    EXPECT_EQ(update.newer_version(), 7);
    EXPECT_THAT(update.engines()[0].why, HasSubstr("version 7 is there already"));
    for (const ModelEngine& engine : fleet.engines) EXPECT_TRUE(engine.serves(7));
  }
}

// Random courses: replies get lost, engines die and come back at their base, drivers die, leases run out.
class Course {
 public:
  explicit Course(uint64_t seed) : random_(seed), fleet_(2 + random_() % 4) {}

  void Run(bool is_strict) {
    for (int round = 0; round < 6; ++round) {
      DrivenUpdate update = fleet_.Begin(is_strict, 1 + random_() % 4);
      const bool driver_dies = Chance(4);
      for (int step = 0; Step(&update, is_strict); ++step) {
        if (driver_dies && Chance(30)) break;
        ASSERT_LT(step, 100'000) << "it never ends";
      }
      if (HasFailed()) return;
    }
    LastRound(is_strict);
  }

 private:
  bool Chance(uint64_t in) { return random_() % in == 0; }
  static bool HasFailed() { return testing::Test::HasFailure(); }

  bool Step(DrivenUpdate* update, bool is_strict) {
    fleet_.now_ms += static_cast<int64_t>(random_() % 40);
    bool more = false;
    for (size_t i = 0; i < fleet_.engines.size(); ++i) {
      ModelEngine& engine = fleet_.engines[i];
      if (Chance(150)) engine.is_dead = true;
      if (engine.is_dead && Chance(20)) engine.Restart(0);
      engine.fails_to_apply = Chance(40);
      engine.fails_to_prepare = Chance(40);
      engine.fails_to_go_on = Chance(40);
      engine.Tick(fleet_.now_ms);
      const bool was_applied = engine.session.state == SessionState::kApplied;
      more |= fleet_.Turn(update, i, Chance(12));
      if (was_applied && engine.session.state == SessionState::kResumed && is_strict) CheckMayResume(*update);
    }
    return more;
  }

  // The driver has let one resume: nobody may still be on the way to applying.
  void CheckMayResume(const DrivenUpdate& update) {
    if (!update.is_decided()) return;  // an applied session of an older target, which is ended first
    for (const DrivenEngine& engine : update.engines()) {
      // Or it has just resumed, and did not go on.
      EXPECT_TRUE(engine.has_resumed || engine.standing == Standing::kApplied || IsOver(engine.standing))
          << NameOf(engine.standing);
    }
  }

  // Nothing fails any more: everybody ends at the target, open.
  void LastRound(bool is_strict) {
    for (ModelEngine& engine : fleet_.engines) {
      if (engine.is_dead) engine.Restart(0);
      engine.fails_to_apply = engine.fails_to_prepare = engine.fails_to_go_on = false;
    }
    fleet_.now_ms += 1'000;
    for (int round = 0; round < 2; ++round) {
      DrivenUpdate update = fleet_.Begin(is_strict, 5);
      fleet_.RunToEnd(&update);
    }
    for (const ModelEngine& engine : fleet_.engines) EXPECT_TRUE(engine.serves(5)) << NameOf(engine.session.state);
  }

  std::mt19937_64 random_;
  Fleet fleet_;
};

TEST(DrivenUpdateTest, RandomCoursesEndWithAllAtOneVersion) {
  const uint64_t seed = TestSeed();
  for (uint64_t i = 0; i < 4'000 && !testing::Test::HasFailure(); ++i) {
    SCOPED_TRACE("seed " + std::to_string(seed + i));
    Course(seed + i).Run(/*is_strict=*/i % 2 == 0);
  }
}

}  // namespace
}  // namespace xorbit
