// The engine's side of a sampler session: the gate that a framework closes and opens, what is served, and whether it is fit to
// be.
#include "server/sampler_session.h"

namespace xorbit {

SamplerSession::GateTurn::GateTurn(SamplerSession& session, std::unique_lock<std::mutex>& lock) : session_(session) {
  has_come_ = session_.changed_.wait_for(lock, session_.options_.gate_deadline, [this] { return !session_.gate_is_taken_; });
  if (has_come_) session_.gate_is_taken_ = true;
}

SamplerSession::GateTurn::~GateTurn() {
  if (!has_come_) return;
  session_.gate_is_taken_ = false;
  session_.changed_.notify_all();
}

Status SamplerSession::GateTurn::status() const {
  if (has_come_) return {};
  return RefusedError("another call is still closing or opening the gate: ask again when it is over");
}

Status SamplerSession::PauseGeneration(const std::string& fence_reason) {
  std::unique_lock lock(mutex_);
  const GateTurn turn(*this, lock);
  XORBIT_RETURN_IF_ERROR(turn.status());
  fence_reason_ = fence_reason.empty() ? fence_reason_ : fence_reason;
  if (is_paused_) return {};
  lock.unlock();
  Status held = sampler_.Hold(std::chrono::steady_clock::now() + options_.gate_deadline);
  lock.lock();
  is_paused_ = held.ok();
  return held;
}

Status SamplerSession::ContinueGeneration() {
  std::unique_lock lock(mutex_);
  const GateTurn turn(*this, lock);
  XORBIT_RETURN_IF_ERROR(turn.status());
  if (StandsStill(receipt_.state)) return CheckOverLocked();
  // What did not go on when it was let go is paused once more, so that it can be let go again.
  const bool is_stuck = !StandstillLocked().ok();
  if (is_stuck || is_paused_) {
    lock.unlock();
    const Status held = is_stuck ? sampler_.Hold(std::chrono::steady_clock::now() + options_.gate_deadline) : Status();
    if (held.ok()) sampler_.Release();
    lock.lock();
    XORBIT_RETURN_IF_ERROR(held);
  }
  is_paused_ = false;
  fence_reason_.clear();
  return StandstillLocked();
}

// Nobody holds the gate, and still the engine behind it has not gone on.
Status SamplerSession::StandstillLocked() const {
  return is_paused_ || options_.engine == nullptr ? Status() : options_.engine->Standstill();
}

bool SamplerSession::is_paused() const {
  const std::lock_guard lock(mutex_);
  return is_paused_ || StandsStill(receipt_.state) || !StandstillLocked().ok();
}

std::string SamplerSession::Finish() {
  std::unique_lock lock(mutex_);
  const GateTurn turn(*this, lock);  // there is no other call
  if (receipt_.state == SessionState::kPrepared) {
    sampler_.receiver().Abort();
    receipt_.state = SessionState::kAborted;
  } else if (receipt_.state == SessionState::kApplied) {
    OpenGate(lock, /*keep_pause=*/false);
  }
  if (receipt_.state == SessionState::kPoisoned) return "the engine stands still: " + receipt_.result;
  if (is_paused_) return "the engine stands still, as /pause_generation has left it: the next server lets it go on";
  return sampler_.memory().Readiness().message();
}

Result<WeightsChecksum> SamplerSession::Checksum() {
  const std::unique_lock one_check(check_mutex_, std::try_to_lock);
  if (!one_check.owns_lock()) return RefusedError("another check is reading all weights: ask again after it");
  XORBIT_RETURN_IF_ERROR(sampler_.memory().CheckReach());
  WeightsChecksum checksum;
  Result<StateDigest> state = RefusedError("generation is paused: no weights are read before it continues");
  sampler_.TryRead([&](uint64_t version, const LiveMemory& live) {
    checksum.version = version;
    state = backend_.ScanLive(stream_.layout(), live, ScanScope::kAll, options_.threads, ServingThrottle::None());
  });
  if (!state.ok()) return state.status();
  checksum.state = *state;
  (void)stream_.RecordAnew(checksum.version);  // where the store cannot be read, what is remembered must do
  XORBIT_RETURN_IF_ERROR(CheckHeld());
  XORBIT_ASSIGN_OR_RETURN(const VersionRecord record, stream_.CommittedRecord(checksum.version));
  checksum.expected = record.target;
  NoteChecked(checksum);
  return checksum;
}

void SamplerSession::NoteChecked(const WeightsChecksum& checksum) {
  const std::lock_guard lock(mutex_);
  damage_.clear();
  if (checksum.state == checksum.expected) return;
  damage_ = "damaged: live memory is not version " + std::to_string(checksum.version) + "; start this sampler again";
}

std::optional<FollowerStatus> SamplerSession::follower_status() const {
  if (follower_ == nullptr) return std::nullopt;
  return follower_->status();
}

Status SamplerSession::Readiness() const {
  const std::lock_guard lock(mutex_);
  if (!broken_.empty()) return RefusedError("broken: " + broken_ + "; start this sampler again");
  XORBIT_RETURN_IF_ERROR(CheckWholeLocked());
  if (const std::string rewritten = RewrittenLocked(); !rewritten.empty()) return RefusedError(rewritten);
  if (!damage_.empty()) return RefusedError(damage_);
  XORBIT_RETURN_IF_ERROR(sampler_.memory().Readiness());
  if (!fence_reason_.empty()) return RefusedError("fenced: " + fence_reason_ + "; POST /continue_generation lifts it");
  const uint64_t applied = ReceiptLocked().applied_version;
  if (was_current_ || applied >= newest_at_start_) return {};
  return RefusedError("catching up: version " + std::to_string(applied) + " of " + std::to_string(newest_at_start_));
}

}  // namespace xorbit
