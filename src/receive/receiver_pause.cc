// The part of an update for which the engine stands still.
#include <chrono>

#include "base/stopwatch.h"
#include "receive/receiver.h"

namespace xorbit {
namespace {

using Clock = std::chrono::steady_clock;

// Calls the engine; a success after the deadline is a failure.
template <typename Call>
Status InTime(std::string_view name, std::chrono::milliseconds limit, Call&& call) {
  const Clock::time_point deadline = Clock::now() + limit;
  const Status status = call(deadline);
  if (!status.ok()) return status.WithContext(name);
  if (Clock::now() <= deadline) return {};
  return RefusedError(std::string(name) + ": the engine took more than its " + std::to_string(limit.count()) + " ms");
}

}  // namespace

Status Receiver::Apply() {
  if (state_ != SyncState::kPrepared) return UsageError("the receiver is " + std::string(NameOf(state_)) + ", not prepared");
  if (live_.map->epoch() != prepared_epoch_) {
    // What was staged stays; where it goes has to be found again.
    const Status again = [&]() -> Status {
      XORBIT_RETURN_IF_ERROR(FollowEpoch());
      if (staged_->is_folded)
        return RefusedError("the engine moved its weights after a chain was folded over them; prepare again");
      XORBIT_RETURN_IF_ERROR(PreparePayloads());
      XORBIT_ASSIGN_OR_RETURN(receipt_, MakeReceipt());
      return {};
    }();
    if (!again.ok()) receipt_.reason = again.message();
  }
  Result<bool> go = false;
  {
    const Stage timed(&report_.timers, "go");
    go = cohort_.AwaitGo(receipt_);
  }
  if (state_ == SyncState::kBroken) return RefusedError(receipt_.reason);
  if (!go.ok() || !*go) {
    Move(SyncEvent::kAborted);
    return go.ok() ? RefusedError(cohort_.last_reason()) : go.status();
  }
  Move(SyncEvent::kGo);
  const Stopwatch pause;
  const Status status = RunPause();
  report_.pause_seconds = pause.seconds();
  return status;
}

Status Receiver::RunPause() {
  Status paused;
  {
    const Stage timed(&report_.timers, "pause");
    paused = InTime("pause", options_.pause_deadline, [&](Deadline deadline) { return engine_.Pause(deadline); });
  }
  Result<bool> all_gated = false;
  {
    const Stage timed(&report_.timers, "gate");
    all_gated = cohort_.AwaitGate(paused.message());
  }
  if (!paused.ok() || !all_gated.ok()) {
    Move(SyncEvent::kFailed);
    return ResumeOld(paused.ok() ? all_gated.status() : paused);
  }
  if (!*all_gated) {
    Move(SyncEvent::kRollBack);
    return ResumeOld(RefusedError(cohort_.last_reason()));
  }
  Move(SyncEvent::kAllGated);
  return ApplyAndSettle();
}

Status Receiver::ApplyAndSettle() {
  const auto await_outcome = [&](const Status& applied) {
    const Stage timed(&report_.timers, "outcome");
    return cohort_.AwaitOutcome(applied.message(), holding_.updated + prepared_->report().change);
  };
  Status applied;
  {
    const Stage timed(&report_.timers, "apply");
    applied = prepared_->Apply();
  }
  if (!applied.ok()) {
    static_cast<void>(await_outcome(applied));
    if (prepared_->is_lost()) return Break(applied);
    Move(SyncEvent::kFailed);
    return ResumeOld(applied);
  }
  if (const Status refreshed = RefreshDerived(); !refreshed.ok()) {
    static_cast<void>(await_outcome(refreshed));
    Move(SyncEvent::kRefreshFailed);
    return UndoAndResume(refreshed);
  }
  Move(SyncEvent::kApplied);
  const Result<bool> commit = await_outcome({});
  if (!commit.ok()) return Break(commit.status().WithContext("the cohort's outcome is not known, so nothing is served"));
  if (*commit) {
    Move(SyncEvent::kCommit);
    return ResumeNew();
  }
  Move(SyncEvent::kRollBack);
  return UndoAndResume(RefusedError(cohort_.last_reason()));
}

Status Receiver::RefreshDerived() {
  if (callbacks_.empty()) return {};
  const Stage timed(&report_.timers, "refresh");
  return InTime("refresh", options_.refresh_deadline, [&](Deadline deadline) { return engine_.Refresh(callbacks_, deadline); });
}

Status Receiver::UndoAndResume(const Status& why) {
  const Status undone = prepared_->Undo();
  if (!undone.ok()) return Break(undone.WithContext("could not be undone"));
  const Status refreshed = RefreshDerived();
  if (!refreshed.ok()) return Break(refreshed.WithContext("what the engine derives from its weights is not known"));
  Move(SyncEvent::kUndone);
  return ResumeOld(why);
}

Status Receiver::ResumeOld(const Status& why) {
  const Status resumed = engine_.Resume(version_, Clock::now() + options_.resume_deadline);
  if (!resumed.ok()) return Break(resumed.WithContext("resume after a failure (" + why.message() + ")"));
  Move(SyncEvent::kResumed);
  return why;
}

Status Receiver::ResumeNew() {
  prepared_->Settle();
  version_ = session_.to;
  held_state_ = target_state_;
  holding_.updated += prepared_->report().change;
  Status resumed;
  {
    const Stage timed(&report_.timers, "resume");
    resumed = engine_.Resume(version_, Clock::now() + options_.resume_deadline);
  }
  if (!resumed.ok()) return Break(resumed.WithContext("resume"));
  Move(SyncEvent::kResumed);
  return {};
}

}  // namespace xorbit
