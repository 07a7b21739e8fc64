// What goes on beside the calls about a sampler's session, on one thread: preparing, giving back what an update took, ending a
// session whose driver has gone.
//
// What was staged is given back here, once the gate is open: to free the device's memory and the payload's pages takes several
// times as long as to apply them.
#include "server/sampler_session.h"

namespace xorbit {

void SamplerSession::Run(const std::stop_token& stop) {
  if (follower_ != nullptr) {
    const Status status = follower_->Run(stop);
    const std::lock_guard lock(mutex_);
    if (!status.ok()) broken_ = status.message();
    return;
  }
  std::unique_lock lock(mutex_);
  while (!stop.stop_requested()) {
    // It may move while this waits: then the next round waits for the rest. While somebody has the gate's turn, he may be the
    // one who ends the session.
    const bool may_end = !gate_is_taken_;
    const Deadline lease_end = may_end ? lease_end_ : Deadline::max();
    const auto is_wanted = [this] { return prepare_is_wanted_ || release_is_wanted_; };
    if (changed_.wait_until(lock, stop, lease_end, [&] { return is_wanted() || may_end == gate_is_taken_; })) {
      ReleaseLocked(lock);
      if (prepare_is_wanted_) PrepareWanted(lock);
    } else if (may_end && std::chrono::steady_clock::now() >= lease_end_) {
      EndAbandoned(lock);
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
  if (!status.ok()) (void)CheckHeld();
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
    receipt_.target_state = receiver.target_state();
    receipt_.change_count = receiver.report().change_count;
    receipt_.fetched_bytes = receiver.report().fetched_bytes;
    receipt_.staged_bytes = receiver.report().staged_bytes;
  }
  changed_.notify_all();
}

// Gives back what an update took that is over, with the mutex let go meanwhile. Whoever uses the receiver next begins with it.
void SamplerSession::ReleaseLocked(std::unique_lock<std::mutex>& lock) {
  changed_.wait(lock, [this] { return !is_releasing_; });
  if (!release_is_wanted_) return;
  release_is_wanted_ = false;
  is_releasing_ = true;
  lock.unlock();
  sampler_.receiver().Release();
  const uint64_t kept_bytes = sampler_.receiver().kept_bytes();
  lock.lock();
  receipt_.kept_bytes = kept_bytes;
  is_releasing_ = false;
  changed_.notify_all();
}

// The lease has run out. What is neither prepared nor applied is on its way to be, and is looked at again; or it needs no
// driver.
void SamplerSession::EndAbandoned(std::unique_lock<std::mutex>& lock) {
  lease_end_ = Deadline::max();
  const GateTurn turn(*this, lock);  // nobody has it
  const std::string why = "the driver has given no sign for " + std::to_string(lease_.count()) + " ms";
  if (receipt_.state == SessionState::kPrepared) {
    sampler_.receiver().Abort();
    receipt_.state = SessionState::kAborted;
    receipt_.result = why;
  } else if (receipt_.state == SessionState::kApplied) {
    OpenGate(lock, /*keep_pause=*/false);
    receipt_.result = receipt_.result.empty() ? why : why + "; " + receipt_.result;
  } else if (IsUnderWay(receipt_.state)) {
    RenewLeaseLocked();
  }
}

}  // namespace xorbit
