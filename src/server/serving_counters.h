// What has happened since the server started, for /metrics: updates with their pauses, and replies by status.
#pragma once

#include <cstdint>
#include <map>
#include <mutex>
#include <string>
#include <string_view>

#include "receive/receiver.h"

namespace xorbit {

struct ServingCounts {
  std::map<int, uint64_t> replies;                // by status
  std::map<std::string_view, uint64_t> refusals;  // by reason
  uint64_t applied_count = 0;                     // updates
  uint64_t failed_count = 0;                      // tries to apply
  uint64_t fetched_bytes = 0;
  uint64_t change_count = 0;
  double pause_seconds = 0;                     // the receiver's, of all tries
  std::map<std::string, double> phase_seconds;  // by what the time went to, as /metrics names it
  uint64_t staged_bytes = 0;                    // of the last update
};

// Thread-safe.
class ServingCounters {
 public:
  void NoteReply(int status, bool lacks_version);
  void NotePhase(const std::string& phase, double seconds);
  void NoteUpdate(const SyncReport& report, bool is_applied);
  ServingCounts counts() const;

 private:
  mutable std::mutex mutex_;
  ServingCounts counts_;  // guarded by mutex_
};

}  // namespace xorbit
