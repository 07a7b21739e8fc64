#include "base/parallel.h"

#include <sched.h>

#include <algorithm>
#include <new>
#include <system_error>
#include <thread>
#include <vector>

namespace xorbit {

void FirstError::Record(Status status) {
  if (status.ok()) return;
  const std::lock_guard lock(mutex_);
  if (!status_.ok()) return;
  status_ = std::move(status);
  stopped_.store(true, std::memory_order_release);
}

Status FirstError::Take() {
  const std::lock_guard lock(mutex_);
  return std::move(status_);
}

int DefaultThreadCount() {
  cpu_set_t mask;
  CPU_ZERO(&mask);
  if (sched_getaffinity(0, sizeof(mask), &mask) == 0) return std::max(1, CPU_COUNT(&mask));
  return std::max(1U, std::thread::hardware_concurrency());
}

namespace {

// A thread must not be left by an exception; what the bodies call can only run out of memory.
Status Run(const std::function<Status(uint64_t index)>& body, uint64_t index) {
  try {
    return body(index);
  } catch (const std::bad_alloc&) {
    return IoError("out of memory; use fewer --threads or a machine with more");
  }
}

}  // namespace

Status ParallelFor(int threads, uint64_t count, const std::function<Status(uint64_t index)>& body) {
  FirstError error;
  std::atomic<uint64_t> next{0};
  const auto work = [&] {
    while (!error.Stopped()) {
      const uint64_t index = next.fetch_add(1, std::memory_order_relaxed);
      if (index >= count) return;
      error.Record(Run(body, index));
    }
  };
  const uint64_t helper_count = std::min<uint64_t>(static_cast<uint64_t>(std::max(threads, 1)), count) - (count > 0 ? 1 : 0);
  std::vector<std::jthread> helpers;
  helpers.reserve(helper_count);
  try {
    for (uint64_t i = 0; i < helper_count; ++i) helpers.emplace_back(work);
  } catch (const std::system_error&) {
    // The system grants no more threads: those at hand, or the caller's alone, do the work.
  }
  work();
  helpers.clear();  // joins
  return error.Take();
}

}  // namespace xorbit
