// From a route to payloads in memory that wait for pre-flight: one delta as it is, a chain folded into one.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "backend/backend.h"
#include "payload/delta.h"
#include "store/stream.h"

namespace xorbit {

struct StagingOptions {
  int threads = 1;
  uint64_t limit_bytes = UINT64_MAX;  // of payloads in memory at any time, a fold beside its sources included
};

// Payloads that change `from` to `to` when taken in `direction`. Does not move: views point into it.
struct StagedUpdate {
  uint64_t from = 0;
  uint64_t to = 0;
  Direction direction = Direction::kForward;
  // Folded here, without values: the payloads have no digests. Whoever applies must prove the whole state before, and what the
  // changes add up to.
  bool is_folded = false;
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
Result<std::unique_ptr<StagedUpdate>> StageRoute(Stream& stream, const Backend& backend, std::span<const Hop> route,
                                                 const StagingOptions& options);

}  // namespace xorbit
