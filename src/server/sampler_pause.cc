// The part of a session for which the gate is closed: from apply to resume, asked for step by step or in one call.
#include <algorithm>

#include "base/steady_clock.h"
#include "server/sampler_session.h"

namespace xorbit {
// The session is in applying, so the receiver is this thread's. Success: the gate is held.
Status SamplerSession::ApplyPrepared() {
  Receiver& receiver = sampler_.receiver();
  if (const Status proven = ProvePrepared(); !proven.ok()) {
    receiver.Abort();
    return proven;
  }
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
  const int64_t applied_ns = SteadyNs();
  const std::lock_guard lock(mutex_);
  receipt_.pause_started_ns = started_ns;
  receipt_.reader_fence_completed_ns = fenced_ns;
  receipt_.applied_ns = applied_ns;
  return status;
}

// Out of applying.
void SamplerSession::EndApply(const Status& status) {
  const std::lock_guard lock(mutex_);
  const Receiver& receiver = sampler_.receiver();
  receipt_.applied_version = receiver.version();
  held_state_ = receiver.held_state();
  was_current_ = was_current_ || receipt_.applied_version >= newest_at_start_ || (status.ok() && choices_.is_current);
  receipt_.state = SessionState::kApplied;
  RenewLeaseLocked();
  if (!status.ok()) {
    receipt_.state = receiver.state() == SyncState::kBroken ? SessionState::kPoisoned : SessionState::kFailed;
    receipt_.result = status.message();
    receipt_.resumed_ns = SteadyNs();
    release_is_wanted_ = true;
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
  std::unique_lock lock(mutex_);
  const GateTurn turn(*this, lock);
  XORBIT_RETURN_IF_ERROR(turn.status());
  XORBIT_RETURN_IF_ERROR(CheckSessionLocked(session_id, SessionState::kApplied));
  OpenGate(lock, keep_pause);
  XORBIT_RETURN_IF_ERROR(StandstillLocked());
  return ReceiptLocked();
}

// From applied into resumed, by who has the gate's turn. The mutex is let go while the gate opens.
void SamplerSession::OpenGate(std::unique_lock<std::mutex>& lock, bool keep_pause) {
  if (keep_pause && !is_paused_) {
    is_paused_ = true;  // the gate's hold changes hands
  } else {
    lock.unlock();
    sampler_.Release();
    lock.lock();
  }
  receipt_.state = SessionState::kResumed;
  receipt_.resumed_ns = SteadyNs();  // an engine's server has flushed and gone on by now
  receipt_.result = StandstillLocked().message();
  release_is_wanted_ = true;
  changed_.notify_all();
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
  } else {
    XORBIT_RETURN_IF_ERROR(stream_.RecordAnew(*target).status());
  }
  XORBIT_RETURN_IF_ERROR(CheckHeld());
  XORBIT_ASSIGN_OR_RETURN(const VersionRecord record, stream_.CommittedRecord(*target));
  {
    std::unique_lock lock(mutex_);
    XORBIT_RETURN_IF_ERROR(BeginLocked(std::string(kOneCallId), record, choices));
    if (receipt_.applied_version == *target) {
      was_current_ = was_current_ || choices.is_current;
      receipt_.state = SessionState::kResumed;
      receipt_.result = StandstillLocked().message();
      XORBIT_RETURN_IF_ERROR(StandstillLocked());
      return ReceiptLocked();
    }
    ReleaseLocked(lock);
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
  if (!status.ok()) (void)CheckHeld();
  const Result<SessionReceipt> resumed =
      status.ok() ? Resume(std::string(kOneCallId), /*keep_pause=*/false) : Result<SessionReceipt>(status);
  std::unique_lock lock(mutex_);
  ReleaseLocked(lock);  // all of it in one call
  if (!resumed.ok()) return resumed;
  SessionReceipt receipt = *resumed;
  receipt.kept_bytes = receipt_.kept_bytes;
  return receipt;
}

}  // namespace xorbit
