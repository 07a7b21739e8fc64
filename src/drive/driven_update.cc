#include "drive/driven_update.h"

#include <algorithm>
#include <map>

#include "base/text.h"

namespace xorbit {
namespace {

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

DrivenUpdate::DrivenUpdate(const DriveRules& rules, DrivenStream stream, uint64_t target, std::string session_id,
                           const std::vector<bool>& is_required, int64_t now_ms)
    : rules_(rules), stream_(std::move(stream)), target_(target), session_id_(std::move(session_id)) {
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

void DrivenUpdate::GiveUp(const std::string& why, int64_t now_ms) {
  if (is_decided_ || !abort_reason_.empty()) return;
  abort_reason_ = why;
  AbortAll(now_ms);
}

void DrivenUpdate::AbortAll(int64_t now_ms) {
  for (DrivenEngine& engine : engines_) {
    if (IsOver(engine.standing) || engine.standing == Standing::kLeaving) continue;
    if (IsOneOf(engine.standing, {Standing::kApplying, Standing::kApplied})) continue;  // independent: it has gone
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

// Whether some engine is on its way still, so that those that have applied wait with their gates closed. Who has resumed at the
// target and has not gone on keeps nobody waiting: whatever becomes of it, it serves no other version.
bool DrivenUpdate::HasCompany() const {
  const auto is_on_its_way = [](const DrivenEngine& engine) {
    if (engine.has_resumed && IsOneOf(engine.standing, {Standing::kOpening, Standing::kFencing})) return false;
    return engine.standing != Standing::kApplied && !IsOver(engine.standing);
  };
  return rules_.is_strict && std::ranges::any_of(engines_, is_on_its_way);
}

DriveStep DrivenUpdate::StepOf(const DrivenEngine& engine) const {
  switch (engine.standing) {
    case Standing::kUnknown:
      return DriveStep::kAsk;
    case Standing::kOccupied:
      if (engine.occupant.session_id == kOneCallId || engine.occupant.state == SessionState::kApplying) return DriveStep::kAsk;
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

}  // namespace xorbit
