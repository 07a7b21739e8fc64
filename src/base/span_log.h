// What ran when, in rows side by side, as Chrome and Perfetto show it: for what StageTimers cannot say, namely what overlapped.
#pragma once

#include <cstdint>
#include <mutex>
#include <span>
#include <string>
#include <vector>

namespace xorbit {

// Times are of the steady clock.
struct TimedSpan {
  std::string process;
  std::string row;  // of the process: what is in one row does not overlap
  std::string name;
  int64_t begin_ns = 0;
  int64_t end_ns = 0;
};

// Thread-safe.
class SpanLog {
 public:
  void Add(TimedSpan span);
  // What was added since the last call.
  std::vector<TimedSpan> Take();

 private:
  std::mutex mutex_;
  std::vector<TimedSpan> spans_;  // guarded by mutex_
};

// Trace events: processes and rows in the order in which they first appear, microseconds from the earliest begin.
std::string ChromeTraceOf(std::span<const TimedSpan> spans);

}  // namespace xorbit
