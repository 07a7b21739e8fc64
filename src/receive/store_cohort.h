// A cohort whose ranks, threads or processes, meet in an object store: a local folder, best on a memory file system, for what
// is written lives no longer than the memory that it speaks of. docs/design/receiving.md.
//
//   <prefix>/s000012/target.json        from, to: whoever opens the session first
//   <prefix>/s000012/prepared-00003.json  gated-00003.json  applied-00003.json
//   <prefix>/s000012/go.json  outcome.json
#pragma once

#include <chrono>
#include <memory>
#include <string>

#include "receive/cohort.h"
#include "transport/object_store.h"

namespace xorbit {

struct CohortOptions {
  std::string prefix = "cohort";  // one cohort's own; what else begins with it is left alone
  uint32_t rank = 0;
  uint32_t rank_count = 1;
  // How long this rank waits for others before it rules no: for all to prepare, and for each step in which the engine stands.
  std::chrono::milliseconds prepare_patience{60'000};
  std::chrono::milliseconds pause_patience{2'000};
  std::chrono::microseconds poll_interval{200};
};

// The store must be able to list, and must outlive the member. If it cannot be reached, calls go on trying for as long again as
// their patience. kUsage for options that make no sense.
Result<std::unique_ptr<CohortMember>> MakeStoreCohort(ObjectStore& store, CohortOptions options);

}  // namespace xorbit
