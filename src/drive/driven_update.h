// One update of several engines, as a pure state machine: replies and the time go in, what to ask whom next comes out. So every
// order of events, failure and lost reply can be tested without a socket.
//
//   unknown -> known -> member -> preparing -> prepared -> applying -> applied -> current
//                 \-> apart (recovered by one call) -/ \                  |
//                                                  leaving -> kept     fencing -> dropped
//
// Strict: all engines change together. The decision to go falls once, when every engine is prepared. Whatever fails before it
// makes all of them abort and serve what they did; whatever fails after it is dropped, with its gate closed, and nobody resumes
// before all others have applied. An engine that was not there before, or lags behind, stops nobody: it is brought along if it
// can be, and dropped in the same way if not, once the others go; if nobody goes it is left as it is. Independent: each engine
// goes through the steps by itself.
//
// Other drivers, alive or dead, are no special case: sessions that lead to our own target are joined, whoever began them, and
// an engine that has applied is taken for the word that the decision to go has fallen. What leads elsewhere is waited for, not
// ended, while its driver gives signs of life (driven_company.cc).
#pragma once

#include <cstdint>
#include <initializer_list>
#include <optional>
#include <string>
#include <vector>

#include "drive/engine_reply.h"

namespace xorbit {

// What makes a version's number mean one state: the same number of another stream, or of one of that name that began with other
// weights, is another state.
struct DrivenStream {
  std::string stream_id;
  std::string base_fingerprint;  // hex
};

// The state too, for the store may be put back and the number given anew while the update is under way.
struct DrivenTarget {
  uint64_t version = 0;
  std::string state;  // hex: the state digest by the version's record
};

struct DriveRules {
  bool is_strict = true;
  int64_t silence_ms = 5'000;    // who says nothing for so long is gone
  int64_t prepare_ms = 600'000;  // to fetch, verify and pre-flight
  int64_t apply_ms = 30'000;
  int64_t lease_ms = 15'000;  // what engines wait for the driver's next word
  // The target is the newest version that the driver knows: where another driver is ahead of it, the update ends.
  bool wants_newest = false;
};

enum class DriveStep : uint8_t {
  kWait,      // nothing, until wake_ms or another engine's reply
  kAsk,       // /get_gpu_delta_info
  kRecover,   // /update_weights_from_gpu_delta
  kContinue,  // /continue_generation
  kPrepare,   // the reference's calls of these names
  kPoll,
  kApply,
  kResume,
  kAbort,
  kFence,  // /pause_generation
  kOver,   // nothing more
};

// Of a strict driver's sessions or an independent one's. `unique` begins with a digit.
std::string SessionIdOf(bool is_strict, const std::string& unique);
// Whether an engine that has applied in this session tells that a strict driver's decision to go has fallen. In a session of
// any other kind it has gone by itself.
bool IsOfCohort(std::string_view session_id);

// Calls in which an engine's silence means nothing: it applies, flushes, goes on, or recovers before it answers.
bool MayTakeLong(DriveStep step);

struct DriveOrder {
  DriveStep step = DriveStep::kOver;
  std::string session_id;
  uint64_t version = 0;  // to prepare, or to recover to
  uint64_t base_version = 0;
  SamplerIdentity identity;
  int64_t wake_ms = 0;
};

enum class Standing : uint8_t {
  kUnknown,
  kOccupied,  // a session that leads elsewhere is under way, and is waited for
  kKnown,
  kApart,    // serves another version than the others, or was left paused
  kOpening,  // recovered; its gate is opened
  kMember,
  kPreparing,
  kPrepared,
  kApplying,
  kApplied,
  kLeaving,
  kBehind,  // cannot come along, and the decision has not fallen: it is fenced when it does
  kFencing,
  // What an engine ends as:
  kCurrent,  // serves the target
  kKept,     // serves what it did
  kDropped,  // did not come along
};

struct DrivenEngine {
  Standing standing = Standing::kUnknown;
  SamplerIdentity identity;
  std::string session_id;
  bool is_heard = false;         // else its version is not known
  uint64_t applied_version = 0;  // as last heard
  bool is_required = true;       // strict: its failure before the decision stops all
  bool was_recovered = false;    // by one call
  bool has_resumed = false;      // its session, at the target
  std::string why;               // not empty: dropped, or about to be
  double pause_seconds = 0;
  int64_t prepare_ms = 0;
  bool is_silent = false;  // the last call was not answered
  int64_t heard_ms = 0;    // the last answer, or the first call after it
  int64_t sent_ms = 0;     // the last call
  int64_t next_ms = 0;     // no call before
  int64_t until_ms = 0;    // the standing's deadline
  int64_t since_ms = 0;    // in this standing
  Standing asked_as = Standing::kUnknown;
  uint64_t asked_version = 0;  // the applied one, as last heard when it was asked
  EngineReceipt receipt;       // as last heard
  uint64_t session_count = 0;  // begun there by this update
  bool has_own = false;        // one of them may be under way
  bool is_elsewhere = false;   // another driver has it: it is left alone
  int refusal_count = 0;       // in a row, which no receipt explains
  std::string refusal;         // of an opening one: what its gate's opening was answered with
  int64_t patience_ms = 0;     // it has asked for patience: no call before,
  int64_t patient_ms = 0;      // and since when it does, 0 if its last reply was another
};

class DrivenUpdate {
 public:
  // `is_required` says for every engine whether a strict update is off if it fails; false for one that an earlier update has
  // dropped. Times are milliseconds of any steady clock.
  DrivenUpdate(const DriveRules& rules, DrivenStream stream, DrivenTarget target, std::string session_id,
               const std::vector<bool>& is_required, int64_t now_ms);

  // What to do for this engine now. The reply goes to NoteReply before the next order.
  DriveOrder Next(size_t index, int64_t now_ms);
  void NoteReply(size_t index, DriveStep step, const EngineReply& reply, int64_t now_ms);
  // The driver is to end: what has not been decided is aborted, for this reason, and what has been applied is resumed. Go on as
  // before until nothing more is to do.
  void GiveUp(const std::string& why, int64_t now_ms);

  // All of the others that an engine's next step hangs on: whoever waits need ask Next again only when it has changed, or the
  // order's time has come.
  struct Outlook {
    bool has_roles = false;
    bool is_decided = false;
    bool is_aborted = false;
    bool has_company = false;
    bool is_all_over = false;
    uint64_t look_count = 0;
    friend bool operator==(const Outlook&, const Outlook&) = default;
  };
  Outlook outlook() const { return {has_roles_, is_decided_, !abort_reason_.empty(), HasCompany(), IsAllOver(), look_count_}; }
  const std::vector<DrivenEngine>& engines() const { return engines_; }
  uint64_t target() const { return target_; }
  bool is_decided() const { return is_decided_; }
  const std::string& abort_reason() const { return abort_reason_; }  // empty: was not aborted
  // With wants_newest: the version beyond the target to which another driver takes an engine, or has taken it.
  std::optional<uint64_t> newer_version() const { return newer_version_; }

 private:
  void Enter(DrivenEngine* engine, Standing standing, int64_t now_ms);
  void EnterMember(DrivenEngine* engine, int64_t now_ms);
  void Fail(size_t index, const std::string& why, int64_t now_ms);
  Standing AfterLeaving(const DrivenEngine& engine) const;
  void AbortAll(int64_t now_ms);
  void AssignRoles(int64_t now_ms);
  void AssignKnown(int64_t now_ms);
  void AssignRole(size_t index, int64_t now_ms);
  void Settle(int64_t now_ms);
  bool Any(std::initializer_list<Standing> standings) const;
  bool IsAllOver() const;
  bool HasCompany() const;
  DriveStep StepOf(const DrivenEngine& engine) const;
  std::string SessionToAsk(const DrivenEngine& engine) const;
  bool MustAbort(const DrivenEngine& engine) const;
  void CheckDeadline(size_t index, int64_t now_ms);

  // What replies, or their absence, make of it.
  void NoteInfo(size_t index, const EngineReply& reply, int64_t now_ms);
  void NoteRecovered(size_t index, const EngineReply& reply, int64_t now_ms);
  void NoteOpened(size_t index, const EngineReply& reply, int64_t now_ms);
  void NoteSession(size_t index, const EngineReply& reply, int64_t now_ms);
  void NoteState(size_t index, const std::string& message, int64_t now_ms);
  void NoteSilence(size_t index, DriveStep step, const std::string& message, int64_t now_ms);
  void NotePatience(size_t index, int64_t wait_ms, int64_t now_ms);
  void GiveUpOn(size_t index, const std::string& why, int64_t now_ms);

  // Other drivers.
  int64_t OthersUntil() const;
  bool IsOwn(const std::string& session_id) const;
  bool LeadsHere(const EngineReceipt& receipt) const;
  bool LeadsAstray(const EngineReceipt& receipt) const;
  bool NoteOtherState(size_t index, int64_t now_ms);
  bool IsUndecided() const { return rules_.is_strict && !is_decided_ && abort_reason_.empty(); }
  void NoteStanding(size_t index, int64_t now_ms);
  void NoteOccupied(size_t index, int64_t now_ms);
  void NoteRefusal(size_t index, const std::string& message, int64_t now_ms);
  void Decide(int64_t now_ms);
  bool HasSnapshot();
  void CheckApplied(int64_t now_ms);
  void Reconsider(int64_t now_ms);
  void AskAgain(size_t index, const std::string& why, int64_t now_ms);
  void LookAgain(int64_t now_ms);
  void GiveWay(int64_t now_ms);
  void LeaveAlone(size_t index, const std::string& why, int64_t now_ms);
  void NoteNewer(size_t index, uint64_t version, const std::string& why, int64_t now_ms);

  DriveRules rules_;
  DrivenStream stream_;
  uint64_t target_;
  std::string target_state_;
  std::string session_id_;
  std::vector<DrivenEngine> engines_;
  int64_t began_ms_;
  bool has_roles_ = false;
  uint64_t look_count_ = 0;
  std::vector<uint64_t> looked_;  // the versions of the last look
  uint64_t base_ = 0;             // what apart engines are brought to
  bool is_decided_ = false;
  int64_t decided_ms_ = 0;
  std::string abort_reason_;
  std::optional<uint64_t> newer_version_;
};

bool IsOver(Standing standing);
bool IsOneOf(Standing standing, std::initializer_list<Standing> standings);
// Until the next look at a session: short at first, so that a small update is not waited for longer than it takes.
int64_t PollAfter(int64_t waited_ms);
std::string_view NameOf(Standing standing);

}  // namespace xorbit
