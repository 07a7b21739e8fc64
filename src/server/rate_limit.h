// How much may be asked. How often by one role: token buckets, so that a client that has gone wild costs a server its own share
// and not that of those who drive it. Strangers, whose requests are refused, have one of their own: /health, which anybody may
// ask, is not kept from those who watch by whoever guesses tokens.
#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <mutex>

namespace xorbit {

// How many calls that may wait, for an engine or for each other, are answered at once: so that threads are left for those that
// only look. Thread-safe.
class CallSlots {
 public:
  static constexpr int kCount = 8;

  bool TryTake() {
    if (taken_.fetch_add(1) < kCount) return true;
    Return();
    return false;
  }
  void Return() { taken_.fetch_sub(1); }

 private:
  std::atomic<int> taken_ = 0;
};

// Thread-safe. Times are of the steady clock.
class RateLimit {
 public:
  static constexpr size_t kStrangers = 3;  // beside the roles
  using Time = std::chrono::steady_clock::time_point;

  // `per_second` requests a role and of strangers, and as many at once after a quiet second, at least one. 0: no limit.
  RateLimit(double per_second, Time now) : per_second_(per_second) {
    for (Bucket& bucket : buckets_) bucket = {std::max(per_second, 1.0), now};
  }
  // 0 if a request of this role may pass now, else the whole seconds, at least 1, after which one may.
  int64_t Take(size_t role, Time now);
  CallSlots& slots() { return slots_; }

 private:
  struct Bucket {
    double tokens = 0;
    Time filled;
  };
  const double per_second_;
  CallSlots slots_;
  std::mutex mutex_;
  std::array<Bucket, kStrangers + 1> buckets_;  // guarded by mutex_
};

}  // namespace xorbit
