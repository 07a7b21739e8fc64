// An update that is larger than the memory to stage it in: fetched, undone, proven and applied a portion at a time. Between its
// portions live memory is neither version, so it is for memory that nobody reads yet, and there is no way back.
#pragma once

#include <cstdint>
#include <span>

#include "backend/backend.h"
#include "base/stage_timer.h"
#include "payload/portions.h"

namespace xorbit {

struct PortionReport {
  uint64_t group_count = 0;  // of portions that were in memory together, one group after the other
  uint64_t change_count = 0;
  uint64_t fetched_bytes = 0;      // chunks that two portions share count twice
  uint64_t most_staged_bytes = 0;  // of chunks and what undoing them makes, at any time
  StateDigest change;              // after - before over the counted elements
  StageTimers timers;              // "fetch + undo", "prepare", "apply"
};

// Takes live memory over the payloads whose verified heads these are. `options` are those of each Prepare; whether they are
// about portions is set here. Every record is proven before it is applied; `report->change` is for the caller to compare.
// kRefused if live memory is another state or one record does not fit the limit, kCorrupt if the payloads lie, errors of
// `read`. After an error nobody knows what live memory holds. Adds to `report`.
Status ApplyByPortions(const Backend& backend, const Layout& layout, std::span<const PayloadView> heads, const ReadBody& read,
                       const LiveMemory& live, uint64_t limit_bytes, PrepareOptions options, PortionReport* report);

}  // namespace xorbit
