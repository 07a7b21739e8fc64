// Who waits with a closed gate for whom, once all have applied: scripted engines, of which one resumes and does not go on.
#include <gtest/gtest.h>

#include <array>

#include "drive/driven_update.h"

namespace xorbit {
namespace {

constexpr uint64_t kTarget = 3;
constexpr size_t kStuck = 1;

class ResumeOrderTest : public testing::Test {
 protected:
  // One turn of an engine that does all that it is asked for; the stuck one stays where it stands.
  void Turn(size_t index) {
    const DriveOrder order = update_.Next(index, now_ms_ += 10);
    if (order.step == DriveStep::kOver || order.step == DriveStep::kWait) return;
    EngineReceipt& receipt = receipts_[index];
    receipt.identity.pid = 1 + index;
    receipt.session_id = order.session_id;
    receipt.target_version = kTarget;
    if (order.step == DriveStep::kPrepare) receipt.state = SessionState::kPrepared;
    if (order.step == DriveStep::kApply) receipt.state = SessionState::kApplied;
    if (order.step == DriveStep::kResume) receipt.state = SessionState::kResumed;
    if (order.step == DriveStep::kApply) receipt.applied_version = kTarget;
    receipt.paused = StandsStill(receipt.state) || (index == kStuck && receipt.state == SessionState::kResumed);
    EngineReply reply;
    reply.has_answered = true;
    reply.is_accepted = order.step != DriveStep::kContinue;
    reply.message = "as it is";
    reply.receipt = receipt;
    update_.NoteReply(index, order.step, reply, now_ms_);
  }
  Standing StandingOf(size_t index) const { return update_.engines()[index].standing; }
  void RunUntil(size_t index, Standing standing) {
    for (int turn = 0; turn < 1'000 && StandingOf(index) != standing; ++turn) Turn(index);
    ASSERT_EQ(StandingOf(index), standing) << NameOf(StandingOf(index));
  }

  int64_t now_ms_ = 1'000;
  DrivenUpdate update_{DriveRules{}, {"", ""}, {kTarget, ""}, "s", {true, true, true}, now_ms_};
  std::array<EngineReceipt, 3> receipts_;
};

TEST_F(ResumeOrderTest, NobodyWaitsForOneThatHasAppliedAndDoesNotGoOn) {
  for (const Standing standing : {Standing::kMember, Standing::kPrepared, Standing::kApplied}) {
    for (size_t i = 0; i < 3; ++i) {
      Turn(i);
      if (standing != Standing::kMember) RunUntil(i, standing);
    }
  }
  // Both before it is tried to let it go, and while it is fenced.
  RunUntil(kStuck, Standing::kOpening);
  RunUntil(0, Standing::kCurrent);
  RunUntil(kStuck, Standing::kFencing);
  RunUntil(2, Standing::kCurrent);
}

TEST_F(ResumeOrderTest, EverybodyWaitsForOneThatHasNotApplied) {
  for (const Standing standing : {Standing::kMember, Standing::kPrepared}) {
    for (size_t i = 0; i < 3; ++i) {
      Turn(i);
      if (standing != Standing::kMember) RunUntil(i, standing);
    }
  }
  RunUntil(0, Standing::kApplied);
  RunUntil(2, Standing::kApplied);
  for (int turn = 0; turn < 100; ++turn) Turn(0);
  EXPECT_EQ(StandingOf(0), Standing::kApplied);
}

}  // namespace
}  // namespace xorbit
