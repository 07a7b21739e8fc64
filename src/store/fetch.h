// From an edge to a delta in memory: every byte fetched into memory of our own and verified before anybody looks at it.
#pragma once

#include <span>
#include <vector>

#include "payload/delta.h"
#include "store/stream.h"

namespace xorbit {

struct FetchOptions {
  int threads = 1;                           // payloads fetched and hashed at once
  uint64_t memory_limit_bytes = UINT64_MAX;  // for all that one call fetches
};

// The whole delta of an edge, checked as by OpenDelta, its manifest against the records of both its versions. kNotFound if it
// was removed meanwhile: plan again. kRefused if it takes more than the limit. Thread-safe.
Result<Delta> FetchDelta(Stream& stream, const Edge& edge, const FetchOptions& options);

// The same of the payloads' heads alone (OpenOptions::heads_only), which count against the limit.
Result<Delta> FetchHeads(Stream& stream, const Edge& edge, const FetchOptions& options);

// The deltas of a route, in order; all of them are in memory at once, within the limit together. Errors as for one; nothing is
// fetched of a route whose edges say that they take more.
Result<std::vector<Delta>> FetchRoute(Stream& stream, std::span<const Hop> route, const FetchOptions& options);

struct FetchedRoute {
  std::vector<Hop> route;
  std::vector<Delta> deltas;
};

// The deltas of the cheapest way between two committed versions that can be fetched whole: what turns out to be missing or
// damaged is avoided. If there is no such way, the error of the first one, or Stream::Route's.
Result<FetchedRoute> FetchWay(Stream& stream, uint64_t from, uint64_t to, const FetchOptions& options);

}  // namespace xorbit
