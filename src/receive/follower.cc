#include "receive/follower.h"

#include <algorithm>

namespace xorbit {

FollowerStatus Follower::status() const {
  const std::lock_guard lock(mutex_);
  return status_;
}

Result<uint64_t> Follower::Wanted() {
  XORBIT_ASSIGN_OR_RETURN(const uint64_t newest, stream_.Newest());
  const std::lock_guard lock(mutex_);
  status_.newest = newest;
  return newest;
}

// One update, towards the version that is wanted when it begins and, if that changed meanwhile, once more from the start:
// fetching is cheap beside a pause that serves nobody. Only once, so that a fast trainer cannot starve the sampler.
Status Follower::Step(bool* is_there) {
  XORBIT_ASSIGN_OR_RETURN(uint64_t wanted, Wanted());
  XORBIT_ASSIGN_OR_RETURN(const std::optional<SessionTarget> pending, receiver_.Pending());
  if (pending) wanted = pending->to;
  // A store that was put back has an older version to offer, which leads nowhere.
  *is_there = pending ? wanted == receiver_.version() : wanted <= receiver_.version();
  if (*is_there) return receiver_.CheckHeld();
  if (options_.may_update) XORBIT_RETURN_IF_ERROR(options_.may_update());
  XORBIT_RETURN_IF_ERROR(receiver_.Prepare(wanted));
  uint64_t now_wanted = wanted;
  if (receiver_.is_alone()) {
    XORBIT_ASSIGN_OR_RETURN(const uint64_t next_free, stream_.NextFree());
    if (next_free > wanted + 1) {
      XORBIT_ASSIGN_OR_RETURN(now_wanted, Wanted());
    }
  }
  if (now_wanted > wanted) {
    receiver_.Abort();
    {
      const std::lock_guard lock(mutex_);
      ++status_.skipped_count;
    }
    XORBIT_RETURN_IF_ERROR(receiver_.Prepare(now_wanted));
  }
  if (options_.may_update) XORBIT_RETURN_IF_ERROR(options_.may_update());
  const Status applied = receiver_.Apply();
  receiver_.Release();
  if (options_.note_update) options_.note_update(receiver_.report(), applied.ok());
  XORBIT_RETURN_IF_ERROR(applied);
  {
    const std::lock_guard lock(mutex_);
    ++status_.applied_count;
    status_.longest_pause_seconds = std::max(status_.longest_pause_seconds, receiver_.report().pause_seconds);
  }
  return {};
}

// False if a stop was requested.
bool Follower::Sleep(const std::stop_token& stop, std::chrono::milliseconds time) {
  std::unique_lock lock(mutex_);
  never_.wait_for(lock, stop, time, [] { return false; });
  return !stop.stop_requested();
}

void Follower::Note(const Status& status) {
  const Status held = receiver_.CheckHeld();
  const std::lock_guard lock(mutex_);
  status_.state = receiver_.state();
  status_.version = receiver_.version();
  status_.held_state = receiver_.held_state();
  if (held.ok() || held.code() == Code::kRefused) status_.rewritten = held.message();
  status_.last_error = status.message();
  if (!status.ok()) ++status_.failed_count;
}

Status Follower::Run(const std::stop_token& stop) {
  std::chrono::milliseconds back_off = options_.first_back_off;
  while (!stop.stop_requested()) {
    bool is_there = false;
    const Status status = Step(&is_there);
    // A store that failed between two calls leaves an update prepared: the next step starts afresh.
    receiver_.Abort();
    Note(status);
    if (receiver_.state() == SyncState::kBroken) return status;
    if (status.ok()) {
      back_off = options_.first_back_off;
      if (is_there && !Sleep(stop, options_.poll_interval)) break;
      continue;
    }
    if (!Sleep(stop, back_off)) break;
    back_off = std::min(2 * back_off, options_.last_back_off);
  }
  return {};
}

}  // namespace xorbit
