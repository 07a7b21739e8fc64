#include "server/sampler_session.h"

#include <algorithm>

#include "base/text.h"

namespace xorbit {
namespace {

constexpr std::chrono::seconds kAbortPatience{10};
constexpr std::string_view kOneCall = "one call";

int64_t SteadyNs() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

}  // namespace

Result<std::unique_ptr<SamplerSession>> SamplerSession::Make(Stream& stream, GatedSampler& sampler, const Backend& backend,
                                                             const SessionOptions& options) {
  XORBIT_ASSIGN_OR_RETURN(const uint64_t newest, stream.Newest());
  return std::unique_ptr<SamplerSession>(new SamplerSession(stream, sampler, backend, options, newest));  // tidy-allow: private
}

SamplerSession::SamplerSession(Stream& stream, GatedSampler& sampler, const Backend& backend, const SessionOptions& options,
                               uint64_t newest_at_start)
    : stream_(stream),
      sampler_(sampler),
      backend_(backend),
      options_(options),
      identity_(ThisSampler(options.engine_id)),
      newest_at_start_(newest_at_start) {
  receipt_.applied_version = sampler.receiver().version();
  was_current_ = receipt_.applied_version >= newest_at_start_;
  if (!options.follows) return;
  FollowerOptions following;
  following.note_update = [this](const SyncReport& report, bool is_applied) { counters_.NoteUpdate(report, is_applied); };
  follower_ = std::make_unique<Follower>(stream, sampler.receiver(), following);
}

void SamplerSession::Run(const std::stop_token& stop) {
  if (follower_ != nullptr) {
    const Status status = follower_->Run(stop);
    const std::lock_guard lock(mutex_);
    if (!status.ok()) broken_ = status.message();
    return;
  }
  std::unique_lock lock(mutex_);
  while (!stop.stop_requested()) {
    const Deadline lease_end = lease_end_;  // it may move while this waits: then the next round waits for the rest
    if (changed_.wait_until(lock, stop, lease_end, [this] { return prepare_is_wanted_; })) {
      PrepareWanted(lock);
    } else if (std::chrono::steady_clock::now() >= lease_end_) {
      EndAbandonedLocked();
    }
  }
}

void SamplerSession::PrepareWanted(std::unique_lock<std::mutex>& lock) {
  prepare_is_wanted_ = false;
  const uint64_t target = receipt_.target_version;
  const UpdateChoices choices = choices_;
  Receiver& receiver = sampler_.receiver();
  lock.unlock();
  receiver.SetUpdateOptions(choices.release_state, choices.validates_inner_hashes);
  Status status = receiver.Prepare(target);
  if (status.ok() && receiver.report().to != target) {
    receiver.Abort();
    status = RefusedError("version " + std::to_string(target) + " takes more than one update: first prepare version " +
                          std::to_string(receiver.report().to));
  }
  const bool is_broken = receiver.state() == SyncState::kBroken;
  if (is_broken) (void)sampler_.Hold(std::chrono::steady_clock::now() + options_.gate_deadline);  // it never opens again
  lock.lock();
  if (is_broken || !status.ok()) {
    receipt_.state = is_broken ? SessionState::kPoisoned : SessionState::kFailed;
    receipt_.result = status.message();
  } else if (abort_is_wanted_) {
    receiver.Abort();
    receipt_.state = SessionState::kAborted;
  } else {
    receipt_.state = SessionState::kPrepared;
    receipt_.change_count = receiver.report().change_count;
    receipt_.fetched_bytes = receiver.report().fetched_bytes;
    receipt_.staged_bytes = receiver.report().staged_bytes;
  }
  changed_.notify_all();
}

// Opens a session, in preparing.
Status SamplerSession::BeginLocked(const std::string& session_id, uint64_t target, const UpdateChoices& choices) {
  if (follower_ != nullptr)
    return RefusedError("this sampler follows the stream by itself; start it without --follow to drive it");
  if (receipt_.state == SessionState::kPoisoned)
    return RefusedError("poisoned: " + receipt_.result + "; start this sampler again");
  if (IsUnderWay(receipt_.state)) {
    return RefusedError("session " + Quoted(receipt_.session_id) + " is " + std::string(NameOf(receipt_.state)));
  }
  const uint64_t applied = receipt_.applied_version;
  receipt_ = SessionReceipt();
  receipt_.state = SessionState::kPreparing;
  receipt_.session_id = session_id;
  receipt_.base_version = applied;
  receipt_.applied_version = applied;
  receipt_.target_version = target;
  if (options_.engine != nullptr) options_.engine->NameSync(session_id == kOneCall ? std::string() : session_id);
  abort_is_wanted_ = false;
  choices_ = choices;
  lease_ = std::chrono::milliseconds(0);
  RenewLeaseLocked();
  return {};
}

Status SamplerSession::CheckSessionLocked(const std::string& session_id, SessionState wanted) const {
  if (receipt_.session_id != session_id || session_id.empty()) {
    return RefusedError("there is no session " + Quoted(session_id) + " here");
  }
  if (receipt_.state == wanted) return {};
  const std::string why = receipt_.result.empty() ? std::string() : ": " + receipt_.result;
  return RefusedError("session " + Quoted(session_id) + " is " + std::string(NameOf(receipt_.state)) + ", not " +
                      std::string(NameOf(wanted)) + why);
}

Result<SessionReceipt> SamplerSession::Prepare(const SessionOrder& order) {
  if (order.session_id.empty() || order.session_id == kOneCall) return UsageError("a session needs a session_id");
  XORBIT_RETURN_IF_ERROR(stream_.CommittedRecord(order.target_version).status());
  const std::lock_guard lock(mutex_);
  if (receipt_.session_id == order.session_id) {
    if (receipt_.target_version == order.target_version) {
      RenewLeaseLocked();
      return ReceiptLocked();
    }
    return RefusedError("session " + Quoted(order.session_id) + " is about version " + std::to_string(receipt_.target_version));
  }
  const uint64_t applied = receipt_.applied_version;
  if (follower_ == nullptr && order.base_version.value_or(applied) != applied) {
    return RefusedError("base_version is " + std::to_string(*order.base_version) + ", but version " + std::to_string(applied) +
                        " is applied");
  }
  if (follower_ == nullptr && order.target_version == applied) {
    return RefusedError("version " + std::to_string(applied) + " is applied already");
  }
  XORBIT_RETURN_IF_ERROR(BeginLocked(order.session_id, order.target_version, order.choices));
  lease_ = order.lease;
  RenewLeaseLocked();
  prepare_is_wanted_ = true;
  changed_.notify_all();
  return ReceiptLocked();
}

Result<SessionReceipt> SamplerSession::StatusOf(const std::string& session_id) {
  const std::lock_guard lock(mutex_);
  XORBIT_RETURN_IF_ERROR(CheckSessionLocked(session_id, receipt_.state));
  RenewLeaseLocked();
  return ReceiptLocked();
}

// The session is in applying, so the receiver is this thread's. Success: the gate is held.
Status SamplerSession::ApplyPrepared() {
  Receiver& receiver = sampler_.receiver();
  const int64_t started_ns = SteadyNs();
  const Status held = sampler_.Hold(std::chrono::steady_clock::now() + options_.gate_deadline);
  if (!held.ok()) {
    receiver.Abort();
    return held;
  }
  const int64_t fenced_ns = SteadyNs();
  if (options_.engine == nullptr) counters_.NotePhase("fence", static_cast<double>(fenced_ns - started_ns) * 1e-9);
  const Status status = receiver.Apply();
  counters_.NoteUpdate(receiver.report(), status.ok());
  if (!status.ok() && receiver.state() != SyncState::kBroken) sampler_.Release();
  const std::lock_guard lock(mutex_);
  receipt_.pause_started_ns = started_ns;
  receipt_.reader_fence_completed_ns = fenced_ns;
  return status;
}

// Out of applying.
void SamplerSession::EndApply(const Status& status) {
  const std::lock_guard lock(mutex_);
  const Receiver& receiver = sampler_.receiver();
  receipt_.applied_version = receiver.version();
  receipt_.kept_bytes = receiver.kept_bytes();
  was_current_ = was_current_ || receipt_.applied_version >= newest_at_start_ || (status.ok() && choices_.is_current);
  receipt_.state = SessionState::kApplied;
  RenewLeaseLocked();
  if (!status.ok()) {
    receipt_.state = receiver.state() == SyncState::kBroken ? SessionState::kPoisoned : SessionState::kFailed;
    receipt_.result = status.message();
    receipt_.resumed_ns = SteadyNs();
  }
  changed_.notify_all();
}

Result<SessionReceipt> SamplerSession::Apply(const std::string& session_id) {
  {
    const std::lock_guard lock(mutex_);
    XORBIT_RETURN_IF_ERROR(CheckSessionLocked(session_id, SessionState::kPrepared));
    receipt_.state = SessionState::kApplying;
  }
  const Status status = ApplyPrepared();
  EndApply(status);
  if (!status.ok()) return status;
  return receipt();
}

Result<SessionReceipt> SamplerSession::Resume(const std::string& session_id, bool keep_pause) {
  const std::lock_guard lock(mutex_);
  XORBIT_RETURN_IF_ERROR(CheckSessionLocked(session_id, SessionState::kApplied));
  OpenGateLocked(keep_pause);
  return ReceiptLocked();
}

// From applied into resumed.
void SamplerSession::OpenGateLocked(bool keep_pause) {
  receipt_.state = SessionState::kResumed;
  if (keep_pause && !is_paused_) {
    is_paused_ = true;  // the gate's hold changes hands
  } else {
    sampler_.Release();
  }
  receipt_.resumed_ns = SteadyNs();  // an engine's server has flushed and gone on by now
}

// The lease has run out. What is neither prepared nor applied is on its way to be, or needs no driver.
void SamplerSession::EndAbandonedLocked() {
  lease_end_ = Deadline::max();
  const std::string why = "the driver has given no sign for " + std::to_string(lease_.count()) + " ms";
  if (receipt_.state == SessionState::kPrepared) {
    sampler_.receiver().Abort();
    receipt_.state = SessionState::kAborted;
    receipt_.result = why;
  } else if (receipt_.state == SessionState::kApplied) {
    OpenGateLocked(/*keep_pause=*/false);
    receipt_.result = why;
  } else if (receipt_.state == SessionState::kPreparing) {
    RenewLeaseLocked();
  }
}

Result<SessionReceipt> SamplerSession::Abort(const std::string& session_id) {
  std::unique_lock lock(mutex_);
  if (receipt_.state == SessionState::kPreparing) {
    XORBIT_RETURN_IF_ERROR(CheckSessionLocked(session_id, SessionState::kPreparing));
    abort_is_wanted_ = true;
    const bool ended = changed_.wait_for(
        lock, kAbortPatience, [&] { return receipt_.session_id != session_id || receipt_.state != SessionState::kPreparing; });
    if (!ended) return RefusedError("session " + Quoted(session_id) + " is still fetching, and will be aborted after that");
    XORBIT_RETURN_IF_ERROR(CheckSessionLocked(session_id, SessionState::kAborted));
    return ReceiptLocked();
  }
  XORBIT_RETURN_IF_ERROR(CheckSessionLocked(session_id, SessionState::kPrepared));
  sampler_.receiver().Abort();
  receipt_.state = SessionState::kAborted;
  return ReceiptLocked();
}

Result<SessionReceipt> SamplerSession::Clear() {
  const std::lock_guard lock(mutex_);
  if (IsUnderWay(receipt_.state) || receipt_.state == SessionState::kPoisoned) {
    return RefusedError("session " + Quoted(receipt_.session_id) + " is " + std::string(NameOf(receipt_.state)) +
                        ": abort or resume it first");
  }
  if (follower_ == nullptr) sampler_.receiver().SetUpdateOptions(/*release_state=*/true, /*validates_inner_hashes=*/true);
  const uint64_t applied = receipt_.applied_version;
  receipt_ = SessionReceipt();
  receipt_.applied_version = applied;
  return ReceiptLocked();
}

// From preparing into applying, unless somebody wanted otherwise meanwhile.
Status SamplerSession::NoteOneCallPrepared() {
  const std::lock_guard lock(mutex_);
  if (abort_is_wanted_) {
    sampler_.receiver().Abort();
    return RefusedError("aborted");
  }
  const SyncReport& report = sampler_.receiver().report();
  receipt_.state = SessionState::kApplying;
  receipt_.change_count += report.change_count;
  receipt_.fetched_bytes += report.fetched_bytes;
  receipt_.staged_bytes = std::max(receipt_.staged_bytes, report.staged_bytes);
  return {};
}

Result<SessionReceipt> SamplerSession::UpdateTo(std::optional<uint64_t> target, const UpdateChoices& choices) {
  if (!target) {
    XORBIT_ASSIGN_OR_RETURN(target, stream_.Newest());
  }
  XORBIT_RETURN_IF_ERROR(stream_.CommittedRecord(*target).status());
  {
    const std::lock_guard lock(mutex_);
    XORBIT_RETURN_IF_ERROR(BeginLocked(std::string(kOneCall), *target, choices));
    if (receipt_.applied_version == *target) {
      was_current_ = was_current_ || choices.is_current;
      receipt_.state = SessionState::kResumed;
      return ReceiptLocked();
    }
  }
  Receiver& receiver = sampler_.receiver();
  receiver.SetUpdateOptions(choices.release_state, choices.validates_inner_hashes);
  Status status;
  while (status.ok() && receiver.version() != *target) {
    status = receiver.Prepare(*target);
    if (status.ok()) status = NoteOneCallPrepared();
    if (status.ok()) status = ApplyPrepared();
    if (status.ok() && receiver.version() != *target) {  // one more update, fetched while this one is served
      sampler_.Release();
      const std::lock_guard lock(mutex_);
      receipt_.state = SessionState::kPreparing;
    }
  }
  EndApply(status);
  if (!status.ok()) return status;
  return Resume(std::string(kOneCall), /*keep_pause=*/false);
}

SessionReceipt SamplerSession::ReceiptLocked() const {
  SessionReceipt receipt = receipt_;
  if (follower_ != nullptr) receipt.applied_version = follower_->status().version;
  return receipt;
}

SessionReceipt SamplerSession::receipt() const {
  const std::lock_guard lock(mutex_);
  return ReceiptLocked();
}

}  // namespace xorbit
