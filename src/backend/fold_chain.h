// Catching up: a chain of deltas becomes one update, folded by the receiver over its own live memory.
//
// A fold made elsewhere has values of its own; here they come out of live memory, so that every record of every delta is proven
// against the values that it would have met, had the deltas been applied one by one. The result is encoded again: it takes no
// more memory than the chain's payloads do, and is prepared like any other delta.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "backend/backend.h"

namespace xorbit {

// One delta of a chain.
struct FoldStep {
  std::string name;  // for messages
  std::span<const PayloadView> payloads;
};

struct FoldOptions {
  int threads = 1;
  Direction direction = Direction::kForward;  // kInverse: from the end of the chain, which `chain` still lists first to last
  bool partial = false;                       // as in PrepareOptions
};

struct FoldedUpdate {
  // One for every owner of the chain's first delta. Prepare them kForward, whatever the chain's direction was, and partial if
  // the fold was: they hold what this memory holds and nothing else. They point into `files`.
  std::vector<PayloadView> payloads;
  // Per delta, as in PrepareReport, in the direction taken; only if partial.
  std::vector<std::vector<std::vector<RecordSums>>> sums;
  std::vector<Buffer> files;
};

// `chain` is not empty, and all payloads are of `layout`. Live memory is only read. kCorrupt: a payload lies; kRefused, naming
// delta, owner and tensor: a record does not fit the values that it would meet. Memory beside the result: a window and a
// decoded record of each segment for every thread, and up to 48 MiB of changes.
Result<FoldedUpdate> FoldChain(const Backend& backend, const Layout& layout, std::span<const FoldStep> chain,
                               const LiveMemory& live, const FoldOptions& options);

}  // namespace xorbit
