// From a route to payloads in memory that wait for pre-flight: one delta as it is, a chain folded into one.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "backend/backend.h"
#include "payload/delta.h"
#include "receive/record_shares.h"
#include "store/stream.h"

namespace xorbit {

struct StagingOptions {
  int threads = 1;
  bool partial = false;               // PrepareOptions
  uint64_t limit_bytes = UINT64_MAX;  // of payloads in memory at any time, a fold beside its sources included
};

// Payloads that change `from` to `to` when taken in `direction`. Does not move: views point into it.
struct StagedUpdate {
  uint64_t from = 0;
  uint64_t to = 0;
  Direction direction = Direction::kForward;
  bool is_folded = false;  // of live memory as it is mapped now: worthless in another epoch
  // A route that goes forth and back is folded without values, and its payloads have no digests. Whoever applies must prove the
  // whole state before, and what the changes add up to. Any other fold has proven every record of every delta on the way.
  bool is_proven = true;
  RecordShares shares;         // of a partial fold: over the records of the deltas
  uint64_t object_count = 0;   // deltas fetched
  uint64_t fetched_bytes = 0;  // manifests and payloads
  uint64_t held_bytes = 0;

  std::vector<Delta> deltas;       // one, or
  std::vector<Buffer> fold_files;  // a fold's
  std::vector<PayloadView> fold;   // views of them

  std::span<const PayloadView> payloads() const { return is_folded ? fold : deltas.front().payloads; }
};

// Fetches and verifies the deltas of a route that is not empty. kNotFound if one was removed meanwhile: plan again. kRefused if
// they take more than the limit. Holds nothing after an error.
Result<std::unique_ptr<StagedUpdate>> StageRoute(Stream& stream, const Backend& backend, const LiveMemory& live,
                                                 std::span<const Hop> route, const StagingOptions& options);

// Whether some hops go forward and some back.
bool TurnsBack(std::span<const Hop> route);

}  // namespace xorbit
