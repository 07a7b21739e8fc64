#include "server/serving_counters.h"

#include <algorithm>

namespace xorbit {
namespace {

constexpr std::string_view kPausePhases[] = {"pause", "gate", "apply", "refresh", "outcome", "resume"};

}  // namespace

void ServingCounters::NoteReply(int status) {
  const std::lock_guard lock(mutex_);
  ++counts_.replies[status];
}

void ServingCounters::NoteUpdate(const SyncReport& report, bool is_applied) {
  const std::lock_guard lock(mutex_);
  ++(is_applied ? counts_.applied_count : counts_.failed_count);
  counts_.fetched_bytes += report.fetched_bytes;
  counts_.change_count += is_applied ? report.change_count : 0;
  counts_.pause_seconds += report.pause_seconds;
  for (const StageTimers::Entry& entry : report.timers.entries()) {
    if (std::ranges::find(kPausePhases, entry.name) != std::end(kPausePhases))
      counts_.phase_seconds[entry.name] += entry.seconds;
  }
}

ServingCounts ServingCounters::counts() const {
  const std::lock_guard lock(mutex_);
  return counts_;
}

}  // namespace xorbit
