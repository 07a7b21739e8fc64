// Keeps a receiver at the newest version.
#pragma once

#include <chrono>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <stop_token>
#include <string>

#include "receive/receiver.h"

namespace xorbit {

struct FollowerOptions {
  std::chrono::milliseconds poll_interval{10};  // how often the store is asked for a newer version
  // After a failure the pause before the next try doubles, from the first to the last of these.
  std::chrono::milliseconds first_back_off{10};
  std::chrono::milliseconds last_back_off{5'000};
  // Called by Run before it prepares and before it applies: an error keeps it from that, until it is tried again. May be empty.
  std::function<Status()> may_update;
  // Called by Run after each try to apply; may be empty.
  std::function<void(const SyncReport& report, bool is_applied)> note_update;
};

struct FollowerStatus {
  SyncState state = SyncState::kIdle;
  uint64_t version = 0;        // live
  StateDigest held_state;      // of it
  uint64_t newest = 0;         // in the stream, as last seen
  uint64_t applied_count = 0;  // updates
  uint64_t skipped_count = 0;  // updates let go of because a newer version came while they were prepared
  uint64_t failed_count = 0;   // tries
  double longest_pause_seconds = 0;
  std::string last_error;  // of the last try; empty after a success
  std::string rewritten;   // Stream::CheckHeld of what is live; empty while it holds
};

// Run() on one thread; the other calls from any. Stream and receiver must outlive it.
class Follower {
 public:
  Follower(Stream& stream, Receiver& receiver, const FollowerOptions& options)
      : stream_(stream), receiver_(receiver), options_(options) {
    status_.version = receiver.version();
    status_.held_state = receiver.held_state();
  }

  // Returns after a stop was requested: success, with the receiver idle; or what broke the receiver. Everything else is tried
  // again. Versions that come faster than they can be applied are skipped: each update goes to the newest there is.
  Status Run(const std::stop_token& stop);

  FollowerStatus status() const;

 private:
  Result<uint64_t> Wanted();
  Status Step(bool* is_there);
  bool Sleep(const std::stop_token& stop, std::chrono::milliseconds time);
  void Note(const Status& status);

  Stream& stream_;
  Receiver& receiver_;
  FollowerOptions options_;

  mutable std::mutex mutex_;
  std::condition_variable_any never_;
  FollowerStatus status_;  // guarded by mutex_
};

}  // namespace xorbit
