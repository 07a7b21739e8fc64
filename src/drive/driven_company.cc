// What a driven update makes of other drivers at its engines: one that was started again while the old one still ran, or one
// with another target. None may hurt another, so nobody is dropped or fenced because of them.
//
// A session to our own target is joined: both drivers take it on, and whoever sees that all are prepared decides. A session
// that leads elsewhere is waited for while its driver lives, which its lease tells. Two strict drivers that have prepared some
// engines each would then wait for each other, so one gives way: the one with the lower target aborts what it has prepared and
// begins anew, and so does the higher one before a session that is applied, whose driver has decided. Whoever waits for a
// session of a lower target that is not applied keeps its own, so that no circle of waiting can close.
#include <algorithm>
#include <functional>
#include <utility>

#include "drive/driven_update.h"

namespace xorbit {
namespace {

constexpr std::string_view kCohortPrefix = "drive-";
constexpr std::string_view kEachPrefix = "drive-each-";
constexpr int kMaxRefusals = 3;  // a reply's receipt is taken after its refusal: another's session may have ended between

}  // namespace

std::string SessionIdOf(bool is_strict, const std::string& unique) {
  return std::string(is_strict ? kCohortPrefix : kEachPrefix) + unique;
}

bool IsOfCohort(std::string_view session_id) {
  return session_id.starts_with(kCohortPrefix) && !session_id.starts_with(kEachPrefix);
}

bool DrivenUpdate::IsOwn(const std::string& session_id) const {
  return session_id == session_id_ || session_id.starts_with(session_id_ + ".");
}

// One that has gone by itself is waited for: it decides nothing for the others.
bool DrivenUpdate::LeadsHere(const EngineReceipt& receipt) const {
  if (rules_.is_strict && StandsStill(receipt.state) && !IsOfCohort(receipt.session_id)) return false;
  return IsUnderWay(receipt.state) && receipt.session_id != kOneCallId && receipt.target_version == target_;
}

// As LeadsHere by its number, but to another state.
bool DrivenUpdate::LeadsAstray(const EngineReceipt& receipt) const {
  return LeadsHere(receipt) && receipt.target_state != target_state_;
}

// Whether the engine has, or is about to have, another state than ours by the target's number: the stream was rewritten between
// its look at the record and ours. Then it cannot come along, and what it has prepared is ended: nobody may take it on.
bool DrivenUpdate::NoteOtherState(size_t index, int64_t now_ms) {
  DrivenEngine& engine = engines_[index];
  const EngineReceipt& receipt = engine.receipt;
  if (IsOver(engine.standing) || IsOneOf(engine.standing, {Standing::kLeaving, Standing::kFencing})) return false;
  const bool is_of_stream = receipt.stream_id == stream_.stream_id && receipt.base_fingerprint == stream_.base_fingerprint;
  const bool leads_astray = LeadsAstray(receipt);
  const bool serves_other = receipt.applied_version == target_ && receipt.applied_state != target_state_;
  if (!is_of_stream || (!leads_astray && !serves_other)) return false;
  if (leads_astray) engine.session_id = receipt.session_id;
  const std::string why = "version " + std::to_string(target_) + " is another state there: the stream was rewritten; ";
  Fail(index, why + (serves_other ? "start it anew, from a checkpoint that is a version of the stream" : "update it anew"),
       now_ms);
  return true;
}

// Whether all of the versions that were heard of were there at one time. Engines are asked one after the other, and if they
// differ another driver may have changed them together meanwhile; what two looks say alike was so between them.
bool DrivenUpdate::HasSnapshot() {
  std::vector<uint64_t> versions;
  for (const DrivenEngine& engine : engines_) versions.push_back(engine.applied_version);
  const bool is_uniform = std::ranges::adjacent_find(versions, std::ranges::not_equal_to()) == versions.end();
  return is_uniform || std::exchange(looked_, versions) == versions;
}

// How long others are waited for. While some of our own engines stand still it is as long as an apply may take.
int64_t DrivenUpdate::OthersUntil() const {
  return is_decided_ ? decided_ms_ + rules_.apply_ms : began_ms_ + rules_.prepare_ms;
}

// The engine's receipt is fresh, and its identity known: what is to be done with it?
void DrivenUpdate::NoteStanding(size_t index, int64_t now_ms) {
  DrivenEngine& engine = engines_[index];
  const EngineReceipt& receipt = engine.receipt;
  const bool leads_here = LeadsHere(receipt);
  const bool leads_elsewhere = IsUnderWay(receipt.state) && !leads_here;
  if (rules_.wants_newest && leads_elsewhere && receipt.target_version > target_) {
    return NoteNewer(index, receipt.target_version, "another driver's " + SessionText(receipt) + " is under way", now_ms);
  }
  if (rules_.wants_newest && receipt.applied_version > target_ && !IsUnderWay(receipt.state)) {
    return NoteNewer(index, receipt.applied_version,
                     "version " + std::to_string(receipt.applied_version) + " is there already; to go back, name the version",
                     now_ms);
  }
  const bool serves_target = engine.applied_version == target_ && !StandsStill(receipt.state) && !receipt.paused;
  if (leads_elsewhere && !serves_target) return NoteOccupied(index, now_ms);
  const bool was_occupied = engine.standing == Standing::kOccupied;
  Enter(&engine, Standing::kKnown, now_ms);
  const bool has_applied = leads_here && StandsStill(receipt.state);
  if (!rules_.is_strict || has_applied || (has_roles_ && !is_decided_)) {
    AssignRole(index, now_ms);
  } else if (has_roles_) {
    CheckApplied(now_ms);
  } else if (was_occupied) {
    LookAgain(now_ms);  // what the others said before is old by now
  }
}

void DrivenUpdate::NoteOccupied(size_t index, int64_t now_ms) {
  DrivenEngine& engine = engines_[index];
  if (engine.standing != Standing::kOccupied) Enter(&engine, Standing::kOccupied, now_ms);
  if (EndsByItself(engine.receipt)) engine.next_ms = now_ms + PollAfter(now_ms - engine.since_ms);
  Reconsider(now_ms);
  if (!IsUndecided()) return;
  if (has_roles_) LookAgain(now_ms);
  const bool is_first = engine.receipt.target_version > target_ || StandsStill(engine.receipt.state);
  if (is_first && engine.receipt.lease_left_ms) GiveWay(now_ms);
}

// A call was answered by where somebody else's session stands, or by none at all.
void DrivenUpdate::NoteRefusal(size_t index, const std::string& message, int64_t now_ms) {
  DrivenEngine& engine = engines_[index];
  if (IsUnderWay(engine.receipt.state)) return NoteStanding(index, now_ms);
  const bool is_explained = engine.standing != Standing::kMember && engine.standing != Standing::kApart;
  const bool has_moved = engine.applied_version != engine.asked_version;
  if (!is_explained && !has_moved && ++engine.refusal_count >= kMaxRefusals) return Fail(index, message, now_ms);
  AskAgain(index, message, now_ms);
}

// Somebody else has taken the engine out of what we knew of it.
void DrivenUpdate::AskAgain(size_t index, const std::string& why, int64_t now_ms) {
  if (now_ms >= OthersUntil()) return LeaveAlone(index, why, now_ms);
  Enter(&engines_[index], Standing::kUnknown, now_ms);
  engines_[index].next_ms = now_ms + PollAfter(now_ms - began_ms_);
  Reconsider(now_ms);
  if (IsUndecided()) LookAgain(now_ms);
}

// Strict, decided: one engine has to be asked to prepare once more. It is not before those that have applied are known to stand
// still for it: another driver may have let them go, and taken them on.
void DrivenUpdate::CheckApplied(int64_t now_ms) {
  for (DrivenEngine& engine : engines_) {
    if (engine.standing == Standing::kApplied) Enter(&engine, Standing::kApplying, now_ms);
  }
  ++look_count_;
}

// One engine is not as it was when the decision fell. While no other waits for it with its gate closed it is open again.
void DrivenUpdate::Reconsider(int64_t now_ms) {
  if (!is_decided_ || Any({Standing::kApplying, Standing::kApplied, Standing::kOpening})) return;
  is_decided_ = false;
  LookAgain(now_ms);
}

// Strict, before the decision: roles are given anew, once it is known how all stand. Sessions on the way to our target go on.
void DrivenUpdate::LookAgain(int64_t now_ms) {
  has_roles_ = false;
  ++look_count_;
  for (DrivenEngine& engine : engines_) {
    if (engine.standing == Standing::kUnknown) engine.asked_as = Standing::kDropped;  // what it answers now is of before
    if (!IsOneOf(engine.standing,
                 {Standing::kKnown, Standing::kApart, Standing::kOpening, Standing::kMember, Standing::kCurrent})) {
      continue;
    }
    engine.refusal.clear();
    Enter(&engine, Standing::kUnknown, now_ms);
  }
}

// Strict, before the decision: what we have prepared is aborted, and what others have is no longer kept alive.
void DrivenUpdate::GiveWay(int64_t now_ms) {
  for (DrivenEngine& engine : engines_) {
    if (IsOver(engine.standing) || engine.standing == Standing::kLeaving || StandsStill(engine.receipt.state)) continue;
    if (engine.standing == Standing::kBehind) continue;
    const bool has_session = IsOneOf(engine.standing, {Standing::kPreparing, Standing::kPrepared});
    if (!engine.has_own && !has_session) continue;
    Enter(&engine, MustAbort(engine) ? Standing::kLeaving : Standing::kUnknown, now_ms);
    ++look_count_;
  }
}

// Another driver has it, and takes care of it.
void DrivenUpdate::LeaveAlone(size_t index, const std::string& why, int64_t now_ms) {
  engines_[index].is_elsewhere = true;
  Fail(index, why, now_ms);
}

// Another driver knows a newer version than ours: going on would take engines back.
void DrivenUpdate::NoteNewer(size_t index, uint64_t version, const std::string& why, int64_t now_ms) {
  newer_version_ = std::max(newer_version_.value_or(0), version);
  if (IsUndecided()) abort_reason_ = "engine " + std::to_string(index + 1) + ": " + why;
  LeaveAlone(index, why, now_ms);
}

}  // namespace xorbit
