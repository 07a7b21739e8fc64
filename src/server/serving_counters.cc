#include "server/serving_counters.h"

#include <algorithm>

namespace xorbit {
namespace {

// The receiver's stages, and what people look for. The check is made with the values that applying returns; what is left of it
// is the cohort's word.
constexpr std::pair<std::string_view, std::string_view> kPausePhases[] = {{"pause", "fence"},   {"gate", "fence"},
                                                                          {"apply", "apply"},   {"refresh", "apply"},
                                                                          {"outcome", "check"}, {"resume", "resume"}};

std::string_view ReasonFor(int status, bool lacks_version) {
  switch (status) {
    case 400:
      return "nonsense";
    case 401:
      return "token";
    case 404:
    case 405:
      return "route";
    case 409:
      return lacks_version ? "version" : "state";
    case 429:
      return "rate";
    case 501:
      return "nothing_behind";
    case 503:
      return "not_ready";
    default:
      return status < 500 ? "malformed" : "internal";
  }
}

}  // namespace

void ServingCounters::NoteReply(int status, bool lacks_version) {
  const std::lock_guard lock(mutex_);
  ++counts_.replies[status];
  if (status >= 400) ++counts_.refusals[ReasonFor(status, lacks_version)];
}

void ServingCounters::NotePhase(const std::string& phase, double seconds) {
  const std::lock_guard lock(mutex_);
  counts_.phase_seconds[phase] += seconds;
}

void ServingCounters::NoteUpdate(const SyncReport& report, bool is_applied) {
  const std::lock_guard lock(mutex_);
  ++(is_applied ? counts_.applied_count : counts_.failed_count);
  counts_.fetched_bytes += report.fetched_bytes;
  counts_.staged_bytes = report.staged_bytes;
  counts_.change_count += is_applied ? report.change_count : 0;
  counts_.pause_seconds += report.pause_seconds;
  for (const StageTimers::Entry& entry : report.timers.entries()) {
    const auto* const phase =
        std::ranges::find(kPausePhases, entry.name, &std::pair<std::string_view, std::string_view>::first);
    if (phase != std::end(kPausePhases)) counts_.phase_seconds[std::string(phase->second)] += entry.seconds;
  }
}

ServingCounts ServingCounters::counts() const {
  const std::lock_guard lock(mutex_);
  return counts_;
}

}  // namespace xorbit
