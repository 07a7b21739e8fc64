// A receiver: takes live memory from version to version, and never lets a wrong byte be served. docs/design/receiving.md.
//
//   Prepare   route -> fetch + verify -> fold a chain -> pre-flight against live memory           the engine serves
//   Apply     go -> | pause -> all gated -> apply + check -> refresh -> outcome -> resume |       or undo, and resume as before
//   Verify    scan all of live memory                                                             the engine serves
//
// After any failure live memory is as it was, and the call may be made again; or the receiver is broken, the engine stands
// still, and only loading a checkpoint helps.
#pragma once

#include <memory>
#include <optional>

#include "backend/backend.h"
#include "base/stage_timer.h"
#include "receive/cohort.h"
#include "receive/engine.h"
#include "receive/staging.h"
#include "receive/sync_state.h"
#include "store/stream.h"
#include "tensor/live_memory.h"

namespace xorbit {

struct ReceiverOptions {
  int threads = 1;
  uint64_t staging_limit_bytes = UINT64_MAX;               // of payloads
  uint64_t localise_budget_bytes = kDefaultLocaliseBytes;  // PrepareOptions
  bool keep_undo_log = false;                              // PrepareOptions
  // For live memory that outlives this process, as in a segment shared with the engine: memory that lasts as long (UndoMemory),
  // for this receiver alone. Large enough for the old and new values of an update. A receiver of the next process is given the
  // same. Empty: none.
  MutableBytes undo_memory{};
  ServingThrottle throttle = {};  // of work on a device, from when the engine serves
  MaskOptions masks{};            // of deltas of mask codecs there
  // What an update of theirs takes is given back after it; false: kept for the next one, which need not ask for it again.
  bool release_state = true;
  std::chrono::milliseconds pause_deadline{1'000};
  std::chrono::milliseconds refresh_deadline{1'000};
  std::chrono::milliseconds resume_deadline{1'000};
};

// One update, done or not.
struct SyncReport {
  uint64_t from = 0;
  uint64_t to = 0;
  uint64_t object_count = 0;  // deltas on the way
  uint64_t fetched_bytes = 0;
  uint64_t staged_bytes = 0;  // payloads, and what waited beside them
  uint64_t change_count = 0;
  double pause_seconds = 0;  // from the call of Pause to the return of Resume
  StageTimers timers;        // "route", "fetch + fold", "prepare", "go", "pause", "gate", "apply", "refresh", "outcome", ...
};

// One thread at a time; state() and version() as well. Everything given to it must outlive it.
class Receiver {
 public:
  // The engine stands still, and live memory holds `version`: proves that, and lets the engine serve. A rank that was killed
  // first catches up with what its cohort has committed meanwhile. `live` is looked at anew in every call: the engine may
  // assign it another map and other regions between calls. kRefused: the weights are not that version, or the map's places
  // overlap or do not cover the layout; the engine has not been resumed.
  // Where a former process has left a record in undo memory, an update that was cut off is taken back, and the record says
  // which version it is, not `version`. kRefused and kCorrupt then mean that nobody can know: load a checkpoint.
  static Result<std::unique_ptr<Receiver>> Attach(Stream& stream, const Backend& backend, const LiveMemory& live,
                                                  Engine& engine, CohortMember& cohort, const ReceiverOptions& options,
                                                  uint64_t version);

  // From idle: stages an update to `target`, or to what another rank has opened a session for, and pre-flights it. Its way may
  // have to be taken in several updates; report().to says where this one ends. Success if there is nothing to do: still idle.
  Status Prepare(uint64_t target);
  // From prepared. kRefused if the cohort does not go, or rolls back; otherwise what went wrong on this rank. What was staged
  // stays, whatever came of it: to free it takes longer than to apply it, and whoever holds the gate shut opens it first.
  Status Apply();
  // Gives back what an update that is over has staged. The next Prepare would, too.
  void Release();
  // From prepared: lets go of what is staged. Tells the cohort so.
  void Abort();
  // Prepare and Apply until live memory holds `target`, or an error.
  Status Sync(uint64_t target);
  // Whether updates from the next Prepare on give back what they take (ReceiverOptions), and whether inner frames are hashed
  // (MaskOptions). Not given back yet: given back at the end of the next update, or now if there is none under way.
  void SetUpdateOptions(bool release_state, bool validates_inner_hashes);
  // Of what updates have left for the next.
  uint64_t kept_bytes() const { return kept_ == nullptr ? 0 : kept_->byte_count(); }
  // Whether the stream still says of the live version what it said when it came to be live, as far as the stream was read by
  // now: Stream::CheckHeld.
  Status CheckHeld() const { return stream_.CheckHeld(version_, held_state_); }
  // Reads all of live memory, in idle or prepared. kRefused, and broken, if it is not what it should be: stop the engine.
  Status Verify();

  // What another rank of the cohort has opened a session for and waits for this one to Prepare.
  Result<std::optional<SessionTarget>> Pending() { return cohort_.Pending(); }

  bool is_alone() const { return !cohort_.partial(); }
  SyncState state() const { return state_; }
  uint64_t version() const { return version_; }
  const StateDigest& held_state() const { return held_state_; }  // of version(), by its record when it came to be live
  // From prepared: of report().to, by the record it was prepared by.
  const StateDigest& target_state() const { return target_state_; }
  const SyncReport& report() const { return report_; }

 private:
  // D over what this rank counts, without and with frozen tensors.
  struct Holding {
    StateDigest updated;
    StateDigest frozen;
    friend bool operator==(const Holding&, const Holding&) = default;
  };

  Receiver(Stream& stream, const Backend& backend, const LiveMemory& live, Engine& engine, CohortMember& cohort,
           const ReceiverOptions& options)
      : stream_(stream), backend_(backend), live_(live), engine_(engine), cohort_(cohort), options_(options) {}

  Status CheckMap() const;
  Status Identify(uint64_t version);
  Status Recover(uint64_t version);
  void NoteHolding();
  Status CatchUp(const CohortStanding& standing);
  Status NoteLive(uint64_t version);
  Status FollowEpoch();
  Result<Holding> Scan() const;
  bool LacksGroups() const;
  Result<std::optional<StateDigest>> UpdatedDigestOf(uint64_t version);

  Result<std::vector<Hop>> PlanRoute(uint64_t target);
  Status OpenAndStage(uint64_t target);
  Status FetchRoute(std::span<const Hop> route);
  Status PreparePayloads();
  Status Explain(const Status& why, uint64_t target);
  Result<PreparedReceipt> MakeReceipt();
  void AddCallback(const std::string& callback);

  Status RunPause();
  Status ApplyAndSettle();
  Status RefreshDerived();
  Status UndoAndResume(const Status& why);
  Status ResumeOld(const Status& why);
  Status ResumeNew();
  Status Break(const Status& why);
  Status WrittenByOthers() const;  // the error
  static std::string VersionName(uint64_t version) { return "version " + std::to_string(version); }
  void Move(SyncEvent event);

  Stream& stream_;
  const Backend& backend_;
  const LiveMemory& live_;
  Engine& engine_;
  CohortMember& cohort_;
  ReceiverOptions options_;
  ServingThrottle throttle_ = ServingThrottle::None();  // until the engine serves

  SyncState state_ = SyncState::kIdle;
  uint64_t version_ = 0;
  StateDigest held_state_;
  Holding holding_;             // of version_,
  uint64_t holding_epoch_ = 0;  // as this epoch's map counts
  std::optional<UndoMemory> undo_;

  // Of the update under way, or the last one until it is released; `prepared_` refers to `staged_`.
  SessionTarget session_;
  StateDigest target_state_;          // of session_.to
  std::unique_ptr<KeptMemory> kept_;  // outlives prepared_
  std::unique_ptr<StagedUpdate> staged_;
  std::unique_ptr<PreparedUpdate> prepared_;
  uint64_t prepared_epoch_ = 0;
  std::vector<std::string> callbacks_;  // to be run after a change
  PreparedReceipt receipt_;
  SyncReport report_;
};

}  // namespace xorbit
