// A sampler as its HTTP handlers see it: one update at a time, driven from outside step by step, or the stream followed by
// itself. All that handlers decide by is here, without sockets or JSON. docs/design/serving.md.
#pragma once

#include <condition_variable>
#include <memory>
#include <mutex>
#include <optional>
#include <stop_token>
#include <string>
#include <string_view>

#include "journey/gated_sampler.h"
#include "receive/follower.h"
#include "server/engine_memory.h"
#include "server/sampler_identity.h"
#include "server/serving_counters.h"
#include "server/session_state.h"
#include "transport/host_cache.h"

namespace xorbit {

struct SessionOptions {
  std::string engine_id;
  std::string checkpoint;  // as the user named it, or the attachment
  std::string memory;      // whose: "own" or "attached"
  std::string backend;     // "cpu" or "cuda"
  fs::path store_root;     // manifests must lie below it
  int threads = 1;
  bool follows = false;
  const HostCacheCounts* host_fetched = nullptr;  // if the store has a cache in front of it
  EngineMemory* engine = nullptr;                 // the sampler's memory, if an engine's server stands before it
  std::chrono::milliseconds gate_deadline{1'000};
};

// What a sampler says of its update. Times are of the steady clock, 0 while not reached.
struct SessionReceipt {
  SessionState state = SessionState::kIdle;
  std::string session_id;
  std::string result;  // of a failure: why
  std::string damage;  // what the last Checksum has found to be wrong, if anything
  uint64_t base_version = 0;
  uint64_t target_version = 0;
  std::optional<StateDigest> target_state;  // by the record that the session goes by; none without a session
  uint64_t applied_version = 0;             // served, or about to be
  StateDigest applied_state;                // by its record when it came to be live
  uint64_t change_count = 0;
  uint64_t fetched_bytes = 0;
  uint64_t staged_bytes = 0;
  uint64_t kept_bytes = 0;  // left for the next update, once what the last one took is given back
  std::optional<uint64_t>
      lease_left_ms;  // until the session ends by itself, if it hears nothing; none: not under way, or no lease
  int64_t pause_started_ns = 0;
  int64_t reader_fence_completed_ns = 0;
  int64_t applied_ns = 0;  // and checked
  int64_t resumed_ns = 0;
};

// What a driver may ask of one update; without a word the safe and thrifty.
struct UpdateChoices {
  bool release_state = true;           // ReceiverOptions
  bool validates_inner_hashes = true;  // MaskOptions
  // The target counts as current once it is applied, also if the stream had a newer version when this sampler started.
  bool is_current = false;
};

struct SessionOrder {
  std::string session_id;
  std::optional<uint64_t> base_version;  // none: whatever is applied
  uint64_t target_version = 0;
  // How long the session waits for the driver's next word before it ends by itself: prepared, it is aborted; applied, it is
  // resumed. So whatever becomes of the driver, one whole version is served. 0: for ever.
  std::chrono::milliseconds lease{0};
  UpdateChoices choices = {};
};

struct WeightsChecksum {
  uint64_t version = 0;
  StateDigest state;     // of every byte in live memory
  StateDigest expected;  // of the version, by the stream
};

// Thread-safe. Errors: kRefused if the sampler is in another state, with everything as it was unless a call says otherwise.
class SamplerSession {
 public:
  // Stream and sampler outlive it; the sampler's receiver is used by nobody else. kIo and the like from the store.
  static Result<std::unique_ptr<SamplerSession>> Make(Stream& stream, GatedSampler& sampler, const Backend& backend,
                                                      const SessionOptions& options);

  // Does what must go on beside the calls: prepares, gives back what an update took, or follows the stream. One thread, until
  // `stop`.
  void Run(const std::stop_token& stop);

  // --- an update step by step ---
  // Begins to prepare and returns; ask StatusOf. Again with the same order: what has come of it.
  Result<SessionReceipt> Prepare(const SessionOrder& order);
  Result<SessionReceipt> StatusOf(const std::string& session_id);  // a sign of life, as are all calls about a session
  // From prepared: closes the gate, applies, checks, and leaves the gate closed. After an error the old version is served, or
  // the sampler is poisoned. kRefused, with the session ended, also if the stream was rewritten since it was prepared, or
  // Checksum has found damage.
  Result<SessionReceipt> Apply(const std::string& session_id);
  // From applied: opens the gate, or with `keep_pause` leaves that to ContinueGeneration. It is applied until the gate is open:
  // who asks again meanwhile waits for that, and hears of resumed. kRefused, in resumed all the same, if
  // an engine's server does not go on: the version is in, is_paused() is true, and ContinueGeneration tries again.
  Result<SessionReceipt> Resume(const std::string& session_id, bool keep_pause);
  // Until applying begins. Waits for a fetch under way to end.
  Result<SessionReceipt> Abort(const std::string& session_id);
  // Forgets a session that is over, and gives back what it has left for the next one.
  Result<SessionReceipt> Clear();
  // All of it in one call, to a version or to the newest. Success without work if that is applied. Errors as of Apply and
  // Resume.
  Result<SessionReceipt> UpdateTo(std::optional<uint64_t> target, const UpdateChoices& choices = {});
  SessionReceipt receipt() const;

  // --- the engine's side ---
  // One call at a time closes or opens the gate, Resume too: kRefused, with nothing done, if another one takes too long.
  // With a reason it is not ready (Readiness) until ContinueGeneration: a driver's fence, not a pause that ends by itself.
  Status PauseGeneration(const std::string& fence_reason = "");
  // kRefused while an update stands between apply and resume, and if an engine's server does not go on even now.
  Status ContinueGeneration();
  bool is_paused() const;
  // Once nothing else is called any more: an update that stands between its steps ends as if its lease had run out, so that one
  // whole version is served. Why readers stand still all the same; empty if they do not.
  std::string Finish();
  // Reads all of live memory, for one caller at a time. kRefused while the gate is closed. If it is not what it should be the
  // sampler is not ready and refuses updates, which would carry the damage along, until a check finds it whole.
  Result<WeightsChecksum> Checksum();
  // Reads the record of the applied version anew, unless an update is under way: kRefused if the stream was rewritten since
  // (Stream::CheckHeld). Then the sampler is not ready and refuses updates, until the stream is again what it was. Success too
  // if the store cannot be read now.
  Status ProveHeld();

  // Success once a version was applied that is no older than the newest was when the sampler started; otherwise why not.
  Status Readiness() const;
  uint64_t version() const { return receipt().applied_version; }
  Result<uint64_t> Newest();
  std::optional<FollowerStatus> follower_status() const;

  ServingCounters& counters() { return counters_; }
  Stream& stream() { return stream_; }
  const SessionOptions& options() const { return options_; }
  const SamplerIdentity& identity() const { return identity_; }
  const std::string& engine_id() const { return identity_.engine_id; }

 private:
  SamplerSession(Stream& stream, GatedSampler& sampler, const Backend& backend, const SessionOptions& options,
                 uint64_t newest_at_start);
  Status BeginLocked(const std::string& session_id, const VersionRecord& target, const UpdateChoices& choices);
  Status CheckSessionLocked(const std::string& session_id, SessionState wanted) const;
  SessionReceipt ReceiptLocked() const;
  void PrepareWanted(std::unique_lock<std::mutex>& lock);
  void ReleaseLocked(std::unique_lock<std::mutex>& lock);
  Status NoteOneCallPrepared();
  Status ApplyPrepared();
  Status ProvePrepared();
  void EndApply(const Status& status);
  void OpenGate(std::unique_lock<std::mutex>& lock, bool keep_pause);
  Status StandstillLocked() const;
  Status CheckWholeLocked() const;
  Status CheckOverLocked() const;
  void NoteChecked(const WeightsChecksum& checksum);
  // As ProveHeld, by the record as it was last read, and at any time.
  Status CheckHeld();
  struct Held {
    uint64_t version;
    StateDigest state;
  };
  Held HeldLocked() const;
  Status NoteHeld(const Held& held, const Status& status);
  std::string RewrittenLocked() const;
  void RenewLeaseLocked() { lease_end_ = lease_.count() == 0 ? Deadline::max() : std::chrono::steady_clock::now() + lease_; }
  std::optional<uint64_t> LeaseLeftMsLocked() const;
  void EndAbandoned(std::unique_lock<std::mutex>& lock);

  // Of one call at a time that closes or opens the gate. mutex_ is held where it begins and where it ends; in between it is let
  // go for as long as the engine behind the gate takes, for others ask how the session stands meanwhile. A turn that does not
  // come in time is refused: calls that wait for an engine that hangs would use up the server's threads.
  class GateTurn {
   public:
    GateTurn(SamplerSession& session, std::unique_lock<std::mutex>& lock);
    GateTurn(const GateTurn&) = delete;
    GateTurn& operator=(const GateTurn&) = delete;
    ~GateTurn();
    Status status() const;  // success: it has come

   private:
    SamplerSession& session_;
    bool has_come_ = false;
  };

  Stream& stream_;
  GatedSampler& sampler_;
  const Backend& backend_;
  const SessionOptions options_;
  const SamplerIdentity identity_;
  const uint64_t newest_at_start_;
  std::unique_ptr<Follower> follower_;  // if it follows; then it has the receiver
  ServingCounters counters_;

  std::mutex check_mutex_;  // one Checksum at a time; not waited for
  // Never held while the engine behind the gate is asked for something. Whoever has moved `receipt_` into preparing or applying
  // has the receiver until it moves it on; but while is_releasing_, it is ReleaseLocked's. Out of applied it is moved by who
  // has the gate's turn.
  mutable std::mutex mutex_;
  std::condition_variable_any changed_;
  SessionReceipt receipt_;          // guarded by mutex_, as all below
  UpdateChoices choices_;           // of the session
  bool prepare_is_wanted_ = false;  // by Run
  bool release_is_wanted_ = false;  // of what an update took that is over: by Run, or whoever is next to use the receiver
  bool is_releasing_ = false;
  bool abort_is_wanted_ = false;
  bool gate_is_taken_ = false;  // GateTurn
  std::chrono::milliseconds lease_{0};
  Deadline lease_end_ = Deadline::max();
  bool is_paused_ = false;  // by PauseGeneration
  std::string fence_reason_;
  bool was_current_ = false;
  StateDigest held_state_;  // of the applied version, if it does not follow
  std::string rewritten_;   // what NoteHeld has last heard, if it does not follow
  std::string damage_;      // what the last Checksum has found
  std::string broken_;      // why the follower has ended
};

}  // namespace xorbit
