// What engines' replies, and their silence, make of a driven update. A reply is judged by the receipt in it: what was asked may
// have been done although the reply says no, or was lost.
#include <algorithm>

#include "base/text.h"
#include "drive/driven_update.h"

namespace xorbit {
namespace {

constexpr int64_t kRetryMs = 100;
constexpr int64_t kMaxPollMs = 50;

// Short at first, so that a small update is not waited for longer than it takes.
int64_t PollAfter(int64_t waited_ms) { return std::clamp<int64_t>(waited_ms / 4, 1, kMaxPollMs); }

}  // namespace

void DrivenUpdate::NoteReply(size_t index, DriveStep step, const EngineReply& reply, int64_t now_ms) {
  DrivenEngine& engine = engines_[index];
  const bool is_overtaken = engine.asked_as != engine.standing && step != DriveStep::kApply;
  engine.asked_as = Standing::kUnknown;
  if (!reply.has_answered) {
    if (!is_overtaken) NoteSilence(index, step, reply.message, now_ms);
    return Settle(now_ms);
  }
  engine.heard_ms = now_ms;
  if (reply.receipt) engine.applied_version = reply.receipt->applied_version;
  if (is_overtaken) return;
  switch (engine.standing) {
    case Standing::kUnknown:
      NoteInfo(index, reply, now_ms);
      break;
    case Standing::kOccupied:
      if (step == DriveStep::kAsk) {
        NoteInfo(index, reply, now_ms);
      } else {
        engine.occupant.session_id = kOneCallId;  // whatever came of it: ask
      }
      break;
    case Standing::kApart:
      NoteRecovered(index, reply, now_ms);
      break;
    case Standing::kOpening:
      if (!reply.is_accepted) {
        Fail(index, reply.message, now_ms);
      } else {
        engine.occupant.paused = false;
        AssignRole(&engine, engine.applied_version, now_ms);
      }
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

void DrivenUpdate::NoteSilence(size_t index, DriveStep step, const std::string& message, int64_t now_ms) {
  DrivenEngine& engine = engines_[index];
  engine.next_ms = now_ms + kRetryMs;
  // Calls that may take long are not silence.
  if (step == DriveStep::kApply || step == DriveStep::kRecover) engine.heard_ms += now_ms - engine.sent_ms;
  if (now_ms - engine.heard_ms < rules_.silence_ms) return;
  if (engine.standing == Standing::kFencing) {
    engine.why += "; whether its gate is closed is not known";
    return Enter(&engine, Standing::kDropped, now_ms);
  }
  if (engine.standing == Standing::kLeaving) {
    if (engine.why.empty()) engine.why = message;
    return Enter(&engine, Standing::kDropped, now_ms);
  }
  Fail(index, message, now_ms);
}

void DrivenUpdate::NoteInfo(size_t index, const EngineReply& reply, int64_t now_ms) {
  DrivenEngine& engine = engines_[index];
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
  engine.identity = receipt.identity;
  engine.occupant = receipt;
  if (!IsUnderWay(receipt.state)) {
    Enter(&engine, Standing::kKnown, now_ms);
    if (!rules_.is_strict) AssignRole(&engine, engine.applied_version, now_ms);
    return;
  }
  if (receipt.session_id == kOneCallId || receipt.target_version != target_) {
    if (engine.standing != Standing::kOccupied) Enter(&engine, Standing::kOccupied, now_ms);
    engine.next_ms = receipt.session_id == kOneCallId || receipt.state == SessionState::kApplying ? now_ms + kRetryMs : now_ms;
    return;
  }
  // A session that another driver has left on the way to our target.
  engine.session_id = receipt.session_id;
  Enter(&engine, Standing::kPreparing, now_ms);
  if (receipt.state != SessionState::kPreparing && receipt.state != SessionState::kPrepared) is_decided_ = true;
  NoteSession(index, reply, now_ms);
}

void DrivenUpdate::NoteRecovered(size_t index, const EngineReply& reply, int64_t now_ms) {
  DrivenEngine& engine = engines_[index];
  const uint64_t wanted = rules_.is_strict ? base_ : target_;
  // It has the version, and only has not gone on: it is told to once more.
  const bool stands_still = reply.receipt && reply.receipt->state == SessionState::kResumed && reply.receipt->paused;
  const bool is_busy = reply.receipt && IsUnderWay(reply.receipt->state);
  if (is_busy) {  // an earlier call of ours whose reply was lost, or somebody else's
    engine.next_ms = now_ms + kRetryMs;
  } else if ((!reply.is_accepted && !stands_still) || engine.applied_version != wanted) {
    Fail(index, reply.message, now_ms);
  } else {
    engine.was_recovered = true;
    engine.occupant.paused = reply.receipt->paused;
    engine.identity = reply.receipt->identity;
    if (engine.occupant.paused) return Enter(&engine, Standing::kOpening, now_ms);
    AssignRole(&engine, engine.applied_version, now_ms);
  }
}

// From prepare to resume: where the session stands is what counts.
void DrivenUpdate::NoteSession(size_t index, const EngineReply& reply, int64_t now_ms) {
  DrivenEngine& engine = engines_[index];
  if (!reply.receipt) return Fail(index, reply.message, now_ms);
  const EngineReceipt& receipt = *reply.receipt;
  if (receipt.session_id != engine.session_id || receipt.identity.pid != engine.identity.pid ||
      receipt.identity.start_ticks != engine.identity.start_ticks) {
    return Fail(index, reply.message, now_ms);
  }
  switch (receipt.state) {
    case SessionState::kPreparing:
      if (engine.standing != Standing::kPreparing) Enter(&engine, Standing::kPreparing, now_ms);
      engine.next_ms = now_ms + PollAfter(now_ms - engine.since_ms);
      return;
    case SessionState::kPrepared:  // also if an apply was lost on its way
      if (engine.standing == Standing::kPreparing) engine.prepare_ms = now_ms - engine.since_ms;
      return Enter(&engine, Standing::kPrepared, now_ms);
    case SessionState::kApplying:
      if (engine.standing != Standing::kApplying) Enter(&engine, Standing::kApplying, now_ms);
      engine.next_ms = now_ms + PollAfter(now_ms - engine.since_ms);
      return;
    case SessionState::kApplied:
      return Enter(&engine, Standing::kApplied, now_ms);
    case SessionState::kResumed:
      engine.pause_seconds = receipt.blocked_seconds;
      engine.has_resumed = true;
      // A gate that somebody closed beside the session would stay closed, and so would an engine that has not gone on.
      return Enter(&engine, receipt.paused ? Standing::kOpening : Standing::kCurrent, now_ms);
    default:
      return Fail(index, receipt.result.empty() ? reply.message : receipt.result, now_ms);
  }
}

}  // namespace xorbit
