// xorbit drive without its command line: takes several samplers through the versions of a stream, each round by a DrivenUpdate
// with one thread an engine. docs/design/serving.md.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <stop_token>
#include <string>
#include <vector>

#include "drive/engine_caller.h"
#include "store/stream.h"

namespace xorbit {

struct DriveRequest {
  std::vector<DrivenAddress> engines;
  DriveRules rules;
  std::string token;
  std::optional<uint64_t> version;                 // none: the newest
  std::chrono::milliseconds poll_interval{10};     // how often a follower looks for a newer version
  std::chrono::milliseconds check_interval{1000};  // and at the engines, for those that were started again
};

struct DriveReport {
  uint64_t version = 0;
  std::string sync_id;
  std::string abort_reason;               // empty: was not aborted
  std::optional<uint64_t> newer_version;  // where the newest was wanted: what another driver takes engines to, beyond `version`
  std::vector<DrivenEngine> engines;      // as in the request
  double seconds = 0;

  bool all_current() const;
};

// One update of all engines to the version, or to the newest one; to a newer one again where another driver is ahead. Success
// says that it is over: the report says what came of it. Errors: the store's. At `stop` it is aborted, or if it has been
// decided brought to its end: nobody is left standing.
Result<DriveReport> DriveOnce(Stream& stream, const DriveRequest& request, const std::stop_token& stop = {});

// The same for every version that comes, until `stop`; an engine that was dropped is asked in each round whether it is there
// again. `report` is called after each round that changed anything. Errors of the store end it only if they last for a minute.
Status DriveOn(Stream& stream, const DriveRequest& request, const std::stop_token& stop,
               const std::function<void(const DriveReport& report)>& report);

}  // namespace xorbit
