// What engines' replies, and their silence, make of a driven update. A reply is judged by the receipt in it: what was asked may
// have been done although the reply says no, or was lost.
#include <algorithm>
#include <utility>

#include "base/text.h"
#include "drive/driven_update.h"

namespace xorbit {
namespace {

constexpr int64_t kRetryMs = 100;

}  // namespace

void DrivenUpdate::NoteReply(size_t index, DriveStep step, const EngineReply& reply, int64_t now_ms) {
  DrivenEngine& engine = engines_[index];
  const bool is_overtaken = engine.asked_as != engine.standing && step != DriveStep::kApply;
  engine.is_silent = !reply.has_answered;
  if (!reply.has_answered) {
    if (!is_overtaken) NoteSilence(index, step, reply.message, now_ms);
    return Settle(now_ms);
  }
  engine.heard_ms = now_ms;
  if (reply.receipt) {
    engine.receipt = *reply.receipt;
    engine.is_heard = true;
    engine.applied_version = reply.receipt->applied_version;
    engine.has_own = IsOwn(reply.receipt->session_id) && IsUnderWay(reply.receipt->state);
  }
  if (reply.wait_ms > 0) {
    NotePatience(index, reply.wait_ms, now_ms);
    return Settle(now_ms);
  }
  engine.patient_ms = 0;
  if (is_overtaken) return;
  if (reply.receipt && NoteOtherState(index, now_ms)) return Settle(now_ms);
  switch (engine.standing) {
    case Standing::kUnknown:
      NoteInfo(index, reply, now_ms);
      break;
    case Standing::kOccupied:
      if (step == DriveStep::kAsk) {
        NoteInfo(index, reply, now_ms);
      } else {
        Enter(&engine, Standing::kUnknown, now_ms);  // whatever came of it: ask
      }
      break;
    case Standing::kApart:
      NoteRecovered(index, reply, now_ms);
      break;
    case Standing::kOpening:
      NoteOpened(index, reply, now_ms);
      break;
    case Standing::kLeaving:
      Enter(&engine, AfterLeaving(engine), now_ms);
      break;
    case Standing::kFencing:
      engine.why += reply.is_accepted ? "; its gate is closed" : "; its gate cannot be closed: " + reply.message;
      Enter(&engine, Standing::kDropped, now_ms);
      break;
    default:
      NoteSession(index, reply, now_ms);
  }
  Settle(now_ms);
}

bool MayTakeLong(DriveStep step) {
  return step == DriveStep::kApply || step == DriveStep::kResume || step == DriveStep::kContinue || step == DriveStep::kRecover;
}

void DrivenUpdate::NoteSilence(size_t index, DriveStep step, const std::string& message, int64_t now_ms) {
  DrivenEngine& engine = engines_[index];
  engine.next_ms = now_ms + kRetryMs;
  if (MayTakeLong(step)) engine.heard_ms += now_ms - engine.sent_ms;
  const bool gives_way = engine.standing == Standing::kLeaving && AfterLeaving(engine) == Standing::kUnknown;
  if (gives_way) return Enter(&engine, Standing::kUnknown, now_ms);  // what is being fetched cannot be left at once
  if (now_ms - engine.heard_ms >= rules_.silence_ms) GiveUpOn(index, message, now_ms);
}

// It refuses for its own sake whatever it is asked, which is no silence, and is waited for as long as an answer would be.
void DrivenUpdate::NotePatience(size_t index, int64_t wait_ms, int64_t now_ms) {
  DrivenEngine& engine = engines_[index];
  if (engine.patient_ms == 0) engine.patient_ms = now_ms;
  const bool is_early = IsOneOf(
      engine.standing, {Standing::kUnknown, Standing::kOccupied, Standing::kApart, Standing::kMember, Standing::kPreparing});
  const int64_t until_ms = engine.patient_ms + (is_early ? rules_.prepare_ms : rules_.apply_ms);
  engine.patience_ms = std::min(now_ms + wait_ms, until_ms);
  if (now_ms < until_ms || IsOver(engine.standing)) return;
  GiveUpOn(index, "it has asked for patience (429) for " + std::to_string(now_ms - engine.patient_ms) + " ms", now_ms);
}

void DrivenUpdate::GiveUpOn(size_t index, const std::string& why, int64_t now_ms) {
  DrivenEngine& engine = engines_[index];
  if (engine.standing == Standing::kFencing) {
    engine.why += "; whether its gate is closed is not known";
    return Enter(&engine, Standing::kDropped, now_ms);
  }
  if (engine.standing == Standing::kLeaving) {
    if (engine.why.empty()) engine.why = why;
    return Enter(&engine, Standing::kDropped, now_ms);
  }
  Fail(index, why, now_ms);
}

void DrivenUpdate::NoteInfo(size_t index, const EngineReply& reply, int64_t now_ms) {
  if (!reply.is_accepted || !reply.receipt) return Fail(index, reply.message, now_ms);
  const EngineReceipt& receipt = *reply.receipt;
  if (receipt.stream_id != stream_.stream_id) {
    return Fail(index, "it is of stream " + Quoted(receipt.stream_id) + ", not of " + Quoted(stream_.stream_id), now_ms);
  }
  if (receipt.base_fingerprint != stream_.base_fingerprint) {
    return Fail(index, "its stream " + Quoted(receipt.stream_id) + " began with other weights: start it from this store",
                now_ms);
  }
  if (receipt.state == SessionState::kPoisoned) {
    return Fail(index, "poisoned: " + receipt.result + "; start it again", now_ms);
  }
  if (!receipt.damage.empty()) return Fail(index, receipt.damage, now_ms);
  for (size_t other = 0; other < engines_.size(); ++other) {
    if (other == index || engines_[other].identity != receipt.identity) continue;
    return Fail(index, "it is engine " + std::to_string(other + 1) + " by another address: name each engine once", now_ms);
  }
  engines_[index].identity = receipt.identity;
  NoteStanding(index, now_ms);
}

void DrivenUpdate::NoteRecovered(size_t index, const EngineReply& reply, int64_t now_ms) {
  DrivenEngine& engine = engines_[index];
  if (!reply.receipt) return Fail(index, reply.message, now_ms);
  engine.identity = reply.receipt->identity;
  // It has the version, and only has not gone on: it is told to once more.
  const bool stands_still = reply.receipt->state == SessionState::kResumed && reply.receipt->paused;
  const bool has_failed = !reply.is_accepted && !stands_still && reply.receipt->session_id == kOneCallId;
  // An earlier call of ours whose reply was lost, or somebody else's.
  if (IsUnderWay(reply.receipt->state)) return NoteStanding(index, now_ms);
  if (has_failed) return Fail(index, reply.message, now_ms);
  if ((!reply.is_accepted && !stands_still) || engine.applied_version != (rules_.is_strict ? base_ : target_)) {
    return NoteRefusal(index, reply.message, now_ms);
  }
  engine.was_recovered = true;
  if (engine.receipt.paused) return Enter(&engine, Standing::kOpening, now_ms);
  AssignRole(index, now_ms);
}

// Where it is refused, the engine is asked whether it is for another driver's sake.
void DrivenUpdate::NoteOpened(size_t index, const EngineReply& reply, int64_t now_ms) {
  DrivenEngine& engine = engines_[index];
  if (engine.refusal.empty()) {
    if (!reply.is_accepted) {
      engine.refusal = reply.message.empty() ? "refused" : reply.message;
      return;
    }
    engine.receipt.paused = false;
    return AssignRole(index, now_ms);
  }
  const std::string refusal = std::exchange(engine.refusal, "");
  if (!reply.receipt || (engine.receipt.paused && !IsUnderWay(engine.receipt.state))) return Fail(index, refusal, now_ms);
  NoteInfo(index, reply, now_ms);
}

// From prepare to resume: where the session stands is what counts.
void DrivenUpdate::NoteSession(size_t index, const EngineReply& reply, int64_t now_ms) {
  const DrivenEngine& engine = engines_[index];
  if (!reply.receipt) return Fail(index, reply.message, now_ms);
  const EngineReceipt& receipt = *reply.receipt;
  if (receipt.identity.pid != engine.identity.pid || receipt.identity.start_ticks != engine.identity.start_ticks) {
    return Fail(index, reply.message, now_ms);  // it was started again
  }
  if (receipt.session_id != engine.session_id) return NoteRefusal(index, reply.message, now_ms);
  NoteState(index, reply.message, now_ms);
}

// The engine's session stands as its receipt says.
void DrivenUpdate::NoteState(size_t index, const std::string& message, int64_t now_ms) {
  DrivenEngine& engine = engines_[index];
  const EngineReceipt& receipt = engine.receipt;
  const std::string& why = receipt.result.empty() ? message : receipt.result;
  engine.refusal_count = 0;
  switch (receipt.state) {
    case SessionState::kPreparing:
      if (engine.standing != Standing::kPreparing) Enter(&engine, Standing::kPreparing, now_ms);
      engine.next_ms = now_ms + PollAfter(now_ms - engine.since_ms);
      return;
    case SessionState::kPrepared:  // also if an apply was lost on its way
      if (engine.standing == Standing::kPreparing) engine.prepare_ms = now_ms - engine.since_ms;
      return Enter(&engine, Standing::kPrepared, now_ms);
    case SessionState::kApplying:
      Decide(now_ms);
      if (engine.standing != Standing::kApplying) Enter(&engine, Standing::kApplying, now_ms);
      engine.next_ms = now_ms + PollAfter(now_ms - engine.since_ms);
      return;
    case SessionState::kApplied:
      Decide(now_ms);
      return Enter(&engine, Standing::kApplied, now_ms);
    case SessionState::kResumed:
      Decide(now_ms);
      engine.pause_seconds = receipt.blocked_seconds;
      engine.has_resumed = true;
      // A gate that somebody closed beside the session would stay closed, and so would an engine that has not gone on.
      return Enter(&engine, receipt.paused ? Standing::kOpening : Standing::kCurrent, now_ms);
    case SessionState::kFailed:
      if (!IsOwn(engine.session_id) && !is_decided_) return AskAgain(index, why, now_ms);  // whether it does so for us too
      return Fail(index, why, now_ms);
    case SessionState::kAborted:
    case SessionState::kIdle:
      return AskAgain(index, "another driver has ended " + SessionText(receipt) + ": " + why, now_ms);
    case SessionState::kPoisoned:
      return Fail(index, why, now_ms);
  }
}

}  // namespace xorbit
