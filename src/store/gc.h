// Collects what a stream need not keep: decides it in the list of tombstones, and removes what was listed long enough ago.
#pragma once

#include <cstdint>
#include <span>

#include "store/retention.h"
#include "store/stream.h"

namespace xorbit {

struct GcOptions {
  RetentionPolicy policy;
  std::span<const uint64_t> marks;                // versions that folds start from
  int64_t grace_ns = int64_t{3600} * 1000000000;  // by the store's clock: what receivers may still be fetching
};

struct GcReport {
  uint64_t listed_count = 0;  // publications and anchors that this run gave up
  uint64_t removed_object_count = 0;
  uint64_t removed_bytes = 0;
};

// Safe beside publishers, receivers and other collectors, whatever their clocks: nobody's bytes change, receivers that lose an
// object plan again, and a way from the base or an anchor to the newest version always stays. May be repeated after any error.
// Also gives up what publications that lost or died left behind, once it is as old as the grace; never what is only damaged.
Result<GcReport> CollectGarbage(Stream& stream, const GcOptions& options);

}  // namespace xorbit
