// What pre-flight on a device found, as Backend::Prepare reports it. Pure.
#pragma once

#include <span>

#include "backend/cuda/update_plan.h"
#include "backend/prepared_update.h"

namespace xorbit::cuda {

// What tiles reported: success if none did. Names the payload's tile, or the live tensor, as the host's reader would.
Status StatusOfReports(const UpdatePlan& plan, std::span<const PayloadCounters> counters);

// counted_sums: by tile, if options.partial. staged_bytes is left to the caller. kRefused if the digests of a whole payload
// are not those that it states.
Result<PrepareReport> ReportOf(const UpdatePlan& plan, std::span<const PayloadView> payloads,
                               std::span<const PayloadCounters> counters, std::span<const TileSums> counted_sums,
                               const PrepareOptions& options);

}  // namespace xorbit::cuda
