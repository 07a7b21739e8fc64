// How long the imitation engine's steps take, so that what a server beside it costs can be told.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <mutex>
#include <vector>

namespace xorbit::imitation {

// Thread-safe.
class StepTimes {
 public:
  struct Summary {
    uint64_t count = 0;
    double p50_us = 0;
    double p99_us = 0;
  };

  void Add(std::chrono::nanoseconds time) {
    const std::lock_guard lock(mutex_);
    if (times_.size() < kMost) times_.push_back(time);
  }
  // Of the steps since the last call.
  Summary Take() {
    std::vector<std::chrono::nanoseconds> times;
    {
      const std::lock_guard lock(mutex_);
      times.swap(times_);
    }
    if (times.empty()) return {};
    std::ranges::sort(times);
    const auto share = [&](uint64_t percent) {
      return std::chrono::duration<double, std::micro>(times[(times.size() - 1) * percent / 100]).count();
    };
    return {times.size(), share(50), share(99)};
  }

 private:
  static constexpr size_t kMost = 1'000'000;  // who never asks does not fill memory
  std::mutex mutex_;
  std::vector<std::chrono::nanoseconds> times_;  // guarded by mutex_
};

}  // namespace xorbit::imitation
