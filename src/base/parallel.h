// Data-parallel loops: the only place where xorbit's CPU code starts threads for computing.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <mutex>

#include "base/status.h"

namespace xorbit {

// The first error wins and stops the others: workers ask Stopped() between items. Thread-safe.
class FirstError {
 public:
  // Keeps `status` if it is the first error; success is ignored.
  void Record(Status status);
  bool Stopped() const { return stopped_.load(std::memory_order_acquire); }
  // Call after the workers have been joined.
  Status Take();

 private:
  std::mutex mutex_;
  Status status_;                     // guarded by mutex_
  std::atomic<bool> stopped_{false};  // set after status_
};

// Hardware threads this process may run on (its affinity mask), at least 1.
int DefaultThreadCount();

// Calls body(index) for every index in [0, count), on up to `threads` threads (the caller's is one of them), in no fixed order.
// Returns the first error; on error some indices may not have been visited. body must be safe to call concurrently.
Status ParallelFor(int threads, uint64_t count, const std::function<Status(uint64_t index)>& body);

}  // namespace xorbit
