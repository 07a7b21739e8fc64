#include "drive/driven_update.h"

#include <algorithm>
#include <map>

#include "base/text.h"

namespace xorbit {
namespace {

constexpr int64_t kMaxPollMs = 50;

}  // namespace

bool IsOneOf(Standing standing, std::initializer_list<Standing> standings) {
  return std::ranges::find(standings, standing) != standings.end();
}

int64_t PollAfter(int64_t waited_ms) { return std::clamp<int64_t>(waited_ms / 4, 1, kMaxPollMs); }

std::string_view NameOf(Standing standing) {
  constexpr std::string_view kNames[] = {"unknown",   "occupied", "known",    "apart",   "opening", "waiting",
                                         "preparing", "prepared", "applying", "applied", "leaving", "behind",
                                         "fencing",   "current",  "kept",     "dropped"};
  return kNames[static_cast<uint8_t>(standing)];
}

bool IsOver(Standing standing) { return IsOneOf(standing, {Standing::kCurrent, Standing::kKept, Standing::kDropped}); }

DrivenUpdate::DrivenUpdate(const DriveRules& rules, DrivenStream stream, DrivenTarget target, std::string session_id,
                           const std::vector<bool>& is_required, int64_t now_ms)
    : rules_(rules),
      stream_(std::move(stream)),
      target_(target.version),
      target_state_(std::move(target.state)),
      session_id_(std::move(session_id)),
      began_ms_(now_ms) {
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
  if (standing == Standing::kOccupied) engine->until_ms = OthersUntil();
  if (standing == Standing::kPreparing) engine->until_ms = now_ms + rules_.prepare_ms;
  if (standing == Standing::kApart) engine->until_ms = now_ms + rules_.prepare_ms + rules_.apply_ms;
  if (standing == Standing::kApplying) engine->until_ms = now_ms + rules_.apply_ms;
  // A prepared or applied engine that waits for others is asked now and then, which keeps its lease.
  if (IsOneOf(standing, {Standing::kPrepared, Standing::kApplied})) engine->next_ms = now_ms + rules_.lease_ms / 4;
}

// A session that is over stays over, so each one has a name of its own.
void DrivenUpdate::EnterMember(DrivenEngine* engine, int64_t now_ms) {
  engine->session_id = session_id_;
  if (engine->session_count > 0) engine->session_id += "." + std::to_string(engine->session_count);
  ++engine->session_count;
  engine->has_resumed = false;
  Enter(engine, Standing::kMember, now_ms);
}

bool DrivenUpdate::Any(std::initializer_list<Standing> standings) const {
  return std::ranges::any_of(engines_, [&](const DrivenEngine& engine) { return IsOneOf(engine.standing, standings); });
}

// A session that is ours to end. Another driver's ends with its lease, unless nobody may take it on.
bool DrivenUpdate::MustAbort(const DrivenEngine& engine) const {
  if (StandsStill(engine.receipt.state)) return false;
  return engine.has_own || LeadsAstray(engine.receipt) ||
         (IsOneOf(engine.standing, {Standing::kPreparing, Standing::kPrepared}) && !engine.receipt.lease_left_ms);
}

void DrivenUpdate::Fail(size_t index, const std::string& why, int64_t now_ms) {
  DrivenEngine& engine = engines_[index];
  engine.why = why;
  if (IsUndecided() && engine.is_required) abort_reason_ = "engine " + std::to_string(index + 1) + ": " + why;
  Enter(&engine, MustAbort(engine) ? Standing::kLeaving : AfterLeaving(engine), now_ms);
  if (!abort_reason_.empty()) AbortAll(now_ms);
}

// Who stays behind while the others go on serves nobody meanwhile.
Standing DrivenUpdate::AfterLeaving(const DrivenEngine& engine) const {
  if (engine.why.empty() && abort_reason_.empty()) return Standing::kUnknown;  // it has given way, and takes part again
  if (engine.why.empty() || engine.is_elsewhere) return Standing::kKept;
  if (!rules_.is_strict || !abort_reason_.empty()) return Standing::kDropped;
  return is_decided_ ? Standing::kFencing : Standing::kBehind;
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
    const bool is_kept = engine.why.empty() || engine.is_elsewhere;
    Enter(&engine, MustAbort(engine) ? Standing::kLeaving : is_kept ? Standing::kKept : Standing::kDropped, now_ms);
  }
}

// Most engines serve one version: that is the cohort's. Others are brought to it before they take part.
void DrivenUpdate::AssignRoles(int64_t now_ms) {
  std::map<uint64_t, uint64_t> counts;
  for (const DrivenEngine& engine : engines_) {
    if (engine.standing == Standing::kKnown) ++counts[engine.applied_version];
  }
  base_ = target_;
  uint64_t most = 0;
  for (const auto& [version, count] : counts) {
    if (count >= most) std::tie(base_, most) = std::tie(version, count);
  }
  AssignKnown(now_ms);
  has_roles_ = true;
}

void DrivenUpdate::AssignKnown(int64_t now_ms) {
  for (size_t i = 0; i < engines_.size(); ++i) {
    if (engines_[i].standing == Standing::kKnown) AssignRole(i, now_ms);
  }
}

void DrivenUpdate::AssignRole(size_t index, int64_t now_ms) {
  DrivenEngine& engine = engines_[index];
  if (LeadsHere(engine.receipt)) {  // whoever has begun it
    engine.session_id = engine.receipt.session_id;
    Enter(&engine, Standing::kPreparing, now_ms);
    return NoteState(index, "", now_ms);
  }
  const bool is_there = engine.applied_version == target_;
  // Nobody is taken back on the way to the newest.
  const bool is_off = rules_.wants_newest ? engine.applied_version < base_ : engine.applied_version != base_;
  const bool is_late = is_decided_ && has_roles_;  // the others wait for it, whatever it comes from
  const bool is_apart = rules_.is_strict && !is_there && is_off && !is_late;
  if (engine.receipt.paused || is_apart) {
    engine.is_required = false;
    Enter(&engine, Standing::kApart, now_ms);
  } else if (is_there) {
    Enter(&engine, Standing::kCurrent, now_ms);
  } else {
    EnterMember(&engine, now_ms);
  }
}

void DrivenUpdate::Settle(int64_t now_ms) {
  if (!rules_.is_strict || !abort_reason_.empty()) return;
  if (!has_roles_ && !Any({Standing::kUnknown, Standing::kOccupied, Standing::kLeaving})) {
    if (!HasSnapshot()) return LookAgain(now_ms);
    AssignRoles(now_ms);
  }
  if (has_roles_ && !Any({Standing::kUnknown, Standing::kApplying})) AssignKnown(now_ms);  // of one that was asked again
  if (has_roles_ && !Any({Standing::kUnknown, Standing::kOccupied, Standing::kApart, Standing::kOpening, Standing::kMember,
                          Standing::kPreparing})) {
    Decide(now_ms);
  }
}

void DrivenUpdate::Decide(int64_t now_ms) {
  if (!IsUndecided()) return;
  if (!Any({Standing::kPrepared, Standing::kApplying, Standing::kApplied, Standing::kCurrent})) {
    if (Any({Standing::kLeaving})) return;
    const auto behind = std::ranges::find(engines_, Standing::kBehind, &DrivenEngine::standing);
    if (behind != engines_.end()) return GiveUp(behind->why, now_ms);  // nobody goes, so nobody stays behind
  }
  is_decided_ = true;
  decided_ms_ = now_ms;
  for (DrivenEngine& engine : engines_) {
    if (engine.standing == Standing::kOccupied) engine.until_ms = OthersUntil();
    if (engine.standing == Standing::kBehind) Enter(&engine, Standing::kFencing, now_ms);
  }
}

bool DrivenUpdate::IsAllOver() const {
  return std::ranges::all_of(engines_, [](const DrivenEngine& engine) { return IsOver(engine.standing); });
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
      if (EndsByItself(engine.receipt)) return DriveStep::kAsk;
      return engine.receipt.state == SessionState::kApplied ? DriveStep::kResume : DriveStep::kAbort;
    case Standing::kKnown:
      return DriveStep::kWait;
    case Standing::kApart:
      return DriveStep::kRecover;
    case Standing::kOpening:
      return engine.refusal.empty() ? DriveStep::kContinue : DriveStep::kAsk;
    case Standing::kMember:
      return DriveStep::kPrepare;
    case Standing::kPrepared:
      return is_decided_ || !rules_.is_strict ? DriveStep::kApply : DriveStep::kPoll;
    case Standing::kApplied:
      return HasCompany() ? DriveStep::kPoll : DriveStep::kResume;
    case Standing::kPreparing:
    case Standing::kApplying:
      return DriveStep::kPoll;
    case Standing::kBehind:
      return DriveStep::kWait;
    case Standing::kLeaving:
      return DriveStep::kAbort;
    case Standing::kFencing:
      return DriveStep::kFence;
    case Standing::kCurrent:
    case Standing::kKept:
    case Standing::kDropped:
      break;
  }
  return rules_.is_strict && !IsAllOver() ? DriveStep::kWait : DriveStep::kOver;  // it may have to be looked at again
}

std::string DrivenUpdate::SessionToAsk(const DrivenEngine& engine) const {
  const EngineReceipt& receipt = engine.receipt;
  const bool is_own_heard_of = IsOwn(receipt.session_id) && IsUnderWay(receipt.state);
  const bool means_that = engine.standing == Standing::kOccupied || (engine.standing == Standing::kLeaving && is_own_heard_of);
  return means_that ? receipt.session_id : engine.session_id;
}

void DrivenUpdate::CheckDeadline(size_t index, int64_t now_ms) {
  const DrivenEngine& engine = engines_[index];
  if (now_ms < engine.until_ms) return;
  const std::string waited = " after " + std::to_string(now_ms - engine.since_ms) + " ms";
  if (engine.standing != Standing::kOccupied) {
    return Fail(index, "still " + std::string(NameOf(engine.standing)) + waited, now_ms);
  }
  LeaveAlone(index, "another driver's " + SessionText(engine.receipt) + " is still under way" + waited, now_ms);
}

DriveOrder DrivenUpdate::Next(size_t index, int64_t now_ms) {
  DrivenEngine& engine = engines_[index];
  CheckDeadline(index, now_ms);
  Settle(now_ms);
  DriveOrder order;
  order.step = StepOf(engine);
  if (order.step == DriveStep::kOver) return order;
  const bool may_wait = order.step != DriveStep::kApply && order.step != DriveStep::kResume;
  const int64_t earliest_ms = std::max(may_wait ? engine.next_ms : now_ms, engine.patience_ms);
  if (order.step == DriveStep::kWait || now_ms < earliest_ms) {
    order.wake_ms = order.step == DriveStep::kWait ? engine.until_ms : std::min(engine.until_ms, earliest_ms);
    order.step = DriveStep::kWait;
    return order;
  }
  order.session_id = SessionToAsk(engine);
  order.version = order.step == DriveStep::kRecover && rules_.is_strict ? base_ : target_;
  order.base_version = engine.applied_version;
  order.identity = engine.identity;
  engine.asked_as = engine.standing;
  engine.asked_version = engine.applied_version;
  engine.sent_ms = now_ms;
  if (engine.is_heard && !engine.is_silent) engine.heard_ms = now_ms;  // it was not asked before
  if (order.step == DriveStep::kPrepare) engine.has_own = true;
  if (order.step == DriveStep::kApply) Enter(&engine, Standing::kApplying, now_ms);
  const bool goes_on = order.step == DriveStep::kResume || order.step == DriveStep::kContinue;
  if (goes_on && engine.until_ms == INT64_MAX) engine.until_ms = now_ms + rules_.apply_ms;
  return order;
}

}  // namespace xorbit
