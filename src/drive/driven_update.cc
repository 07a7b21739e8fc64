#include "drive/driven_update.h"

#include <algorithm>
#include <map>

#include "base/text.h"

namespace xorbit {
namespace {

constexpr std::string_view kOneCall = "one call";
constexpr int64_t kRetryMs = 100;
constexpr int64_t kMaxPollMs = 50;

// Short at first, so that a small update is not waited for longer than it takes.
int64_t PollAfter(int64_t waited_ms) { return std::clamp<int64_t>(waited_ms / 4, 1, kMaxPollMs); }

bool IsOneOf(Standing standing, std::initializer_list<Standing> standings) {
  return std::ranges::find(standings, standing) != standings.end();
}

}  // namespace

std::string_view NameOf(Standing standing) {
  constexpr std::string_view kNames[] = {"unknown", "occupied",  "known",    "apart",    "opening",
                                         "waiting", "preparing", "prepared", "applying", "applied",
                                         "leaving", "fencing",   "current",  "kept",     "dropped"};
  return kNames[static_cast<uint8_t>(standing)];
}

bool IsOver(Standing standing) { return IsOneOf(standing, {Standing::kCurrent, Standing::kKept, Standing::kDropped}); }

DrivenUpdate::DrivenUpdate(const DriveRules& rules, std::string stream_id, uint64_t target, std::string session_id,
                           const std::vector<bool>& is_required, int64_t now_ms)
    : rules_(rules), stream_id_(std::move(stream_id)), target_(target), session_id_(std::move(session_id)) {
  for (const bool required : is_required) {
    DrivenEngine engine;
    engine.is_required = required;
    engine.session_id = session_id_;
    engine.heard_ms = required ? now_ms : now_ms - rules_.silence_ms;  // one that was dropped gets one chance
    Enter(&engine, Standing::kUnknown, now_ms);
    engines_.push_back(std::move(engine));
  }
}

void DrivenUpdate::Enter(DrivenEngine* engine, Standing standing, int64_t now_ms) {
  engine->standing = standing;
  engine->since_ms = now_ms;
  engine->next_ms = now_ms;
  engine->until_ms = INT64_MAX;
  if (IsOneOf(standing, {Standing::kOccupied, Standing::kPreparing})) engine->until_ms = now_ms + rules_.prepare_ms;
  if (standing == Standing::kApart) engine->until_ms = now_ms + rules_.prepare_ms + rules_.apply_ms;
  if (standing == Standing::kApplying) engine->until_ms = now_ms + rules_.apply_ms;
  // A prepared or applied engine that waits for others is asked now and then, which keeps its lease.
  if (IsOneOf(standing, {Standing::kPrepared, Standing::kApplied})) engine->next_ms = now_ms + rules_.lease_ms / 4;
}

bool DrivenUpdate::Any(std::initializer_list<Standing> standings) const {
  return std::ranges::any_of(engines_, [&](const DrivenEngine& engine) { return IsOneOf(engine.standing, standings); });
}

void DrivenUpdate::Fail(size_t index, const std::string& why, int64_t now_ms) {
  DrivenEngine& engine = engines_[index];
  const Standing was = engine.standing;
  engine.why = why;
  if (rules_.is_strict && !is_decided_ && engine.is_required && abort_reason_.empty()) {
    abort_reason_ = "engine " + std::to_string(index + 1) + ": " + why;
  }
  const bool has_session = IsOneOf(was, {Standing::kPreparing, Standing::kPrepared});
  Enter(&engine, has_session ? Standing::kLeaving : AfterLeaving(engine), now_ms);
  if (!abort_reason_.empty()) AbortAll(now_ms);
}

// Who stays behind while the others go on serves nobody meanwhile.
Standing DrivenUpdate::AfterLeaving(const DrivenEngine& engine) const {
  if (engine.why.empty()) return Standing::kKept;
  return rules_.is_strict && abort_reason_.empty() ? Standing::kFencing : Standing::kDropped;
}

void DrivenUpdate::AbortAll(int64_t now_ms) {
  for (DrivenEngine& engine : engines_) {
    if (IsOver(engine.standing) || engine.standing == Standing::kLeaving) continue;
    const bool has_session = IsOneOf(engine.standing, {Standing::kPreparing, Standing::kPrepared});
    // One that is just being asked to prepare has a session by the time that this is answered.
    const bool is_asked = engine.standing == Standing::kMember && engine.asked_as == Standing::kMember;
    const Standing otherwise = engine.why.empty() ? Standing::kKept : Standing::kDropped;
    Enter(&engine, has_session || is_asked ? Standing::kLeaving : otherwise, now_ms);
  }
}

// Most engines serve one version: that is the cohort's. Others are brought to it before they take part.
void DrivenUpdate::AssignRoles(int64_t now_ms) {
  has_roles_ = true;
  std::map<uint64_t, uint64_t> counts;
  for (const DrivenEngine& engine : engines_) {
    if (engine.standing == Standing::kKnown) ++counts[engine.applied_version];
  }
  base_ = target_;
  uint64_t most = 0;
  for (const auto& [version, count] : counts) {
    if (count >= most) std::tie(base_, most) = std::tie(version, count);
  }
  for (DrivenEngine& engine : engines_) {
    if (engine.standing == Standing::kKnown) AssignRole(&engine, base_, now_ms);
  }
}

void DrivenUpdate::AssignRole(DrivenEngine* engine, uint64_t base, int64_t now_ms) {
  const bool is_there = engine->applied_version == target_;
  if (engine->occupant.paused || (!is_there && engine->applied_version != base)) {
    engine->is_required = false;
    Enter(engine, Standing::kApart, now_ms);
  } else {
    Enter(engine, is_there ? Standing::kCurrent : Standing::kMember, now_ms);
  }
}

void DrivenUpdate::Settle(int64_t now_ms) {
  if (!rules_.is_strict || !abort_reason_.empty()) return;
  if (!has_roles_ && !Any({Standing::kUnknown, Standing::kOccupied})) AssignRoles(now_ms);
  if (has_roles_ && !Any({Standing::kApart, Standing::kOpening, Standing::kMember, Standing::kPreparing})) is_decided_ = true;
}

// Whether some engine is on its way still, so that those that have applied wait with their gates closed.
bool DrivenUpdate::HasCompany() const {
  return rules_.is_strict && Any({Standing::kUnknown, Standing::kOccupied, Standing::kKnown, Standing::kApart,
                                  Standing::kOpening, Standing::kMember, Standing::kPreparing, Standing::kPrepared,
                                  Standing::kApplying, Standing::kLeaving, Standing::kFencing});
}

DriveStep DrivenUpdate::StepOf(const DrivenEngine& engine) const {
  switch (engine.standing) {
    case Standing::kUnknown:
      return DriveStep::kAsk;
    case Standing::kOccupied:
      if (engine.occupant.session_id == kOneCall || engine.occupant.state == SessionState::kApplying) return DriveStep::kAsk;
      return engine.occupant.state == SessionState::kApplied ? DriveStep::kResume : DriveStep::kAbort;
    case Standing::kKnown:
      return DriveStep::kWait;
    case Standing::kApart:
      return DriveStep::kRecover;
    case Standing::kOpening:
      return DriveStep::kContinue;
    case Standing::kMember:
      return DriveStep::kPrepare;
    case Standing::kPrepared:
      return is_decided_ || !rules_.is_strict ? DriveStep::kApply : DriveStep::kPoll;
    case Standing::kApplied:
      return HasCompany() ? DriveStep::kPoll : DriveStep::kResume;
    case Standing::kPreparing:
    case Standing::kApplying:
      return DriveStep::kPoll;
    case Standing::kLeaving:
      return DriveStep::kAbort;
    case Standing::kFencing:
      return DriveStep::kFence;
    case Standing::kCurrent:
    case Standing::kKept:
    case Standing::kDropped:
      break;
  }
  return DriveStep::kOver;
}

DriveOrder DrivenUpdate::Next(size_t index, int64_t now_ms) {
  DrivenEngine& engine = engines_[index];
  if (now_ms >= engine.until_ms) {
    Fail(index, "still " + std::string(NameOf(engine.standing)) + " after " + std::to_string(now_ms - engine.since_ms) + " ms",
         now_ms);
  }
  Settle(now_ms);
  DriveOrder order;
  order.step = StepOf(engine);
  if (order.step == DriveStep::kOver) return order;
  const bool may_wait = order.step != DriveStep::kApply && order.step != DriveStep::kResume;
  if (order.step == DriveStep::kWait || (may_wait && now_ms < engine.next_ms)) {
    order.step = DriveStep::kWait;
    order.wake_ms = std::min(engine.until_ms, std::max(engine.next_ms, now_ms + 1));
    return order;
  }
  order.session_id = engine.standing == Standing::kOccupied ? engine.occupant.session_id : engine.session_id;
  order.version = order.step == DriveStep::kRecover && rules_.is_strict ? base_ : target_;
  order.base_version = engine.applied_version;
  order.identity = engine.identity;
  engine.asked_as = engine.standing;
  engine.sent_ms = now_ms;
  if (order.step == DriveStep::kApply) Enter(&engine, Standing::kApplying, now_ms);
  return order;
}

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
        engine.occupant.session_id = kOneCall;  // whatever came of it: ask
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
  if (receipt.stream_id != stream_id_) {
    return Fail(index, "it is of stream " + Quoted(receipt.stream_id) + ", not of " + Quoted(stream_id_), now_ms);
  }
  if (receipt.state == SessionState::kPoisoned) {
    return Fail(index, "poisoned: " + receipt.result + "; start it again", now_ms);
  }
  engine.identity = receipt.identity;
  engine.occupant = receipt;
  if (!IsUnderWay(receipt.state)) {
    Enter(&engine, Standing::kKnown, now_ms);
    if (!rules_.is_strict) AssignRole(&engine, engine.applied_version, now_ms);
    return;
  }
  if (receipt.session_id == kOneCall || receipt.target_version != target_) {
    if (engine.standing != Standing::kOccupied) Enter(&engine, Standing::kOccupied, now_ms);
    engine.next_ms = receipt.session_id == kOneCall || receipt.state == SessionState::kApplying ? now_ms + kRetryMs : now_ms;
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
  const bool is_busy = reply.receipt && IsUnderWay(reply.receipt->state);
  if (is_busy) {  // an earlier call of ours whose reply was lost, or somebody else's
    engine.next_ms = now_ms + kRetryMs;
  } else if (!reply.is_accepted || engine.applied_version != wanted) {
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
      // A gate that somebody closed beside the session would stay closed.
      return Enter(&engine, receipt.paused ? Standing::kOpening : Standing::kCurrent, now_ms);
    default:
      return Fail(index, receipt.result.empty() ? reply.message : receipt.result, now_ms);
  }
}

}  // namespace xorbit
