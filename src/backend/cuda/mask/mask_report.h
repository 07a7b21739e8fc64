// What a pre-flight of masks found, as Backend::Prepare reports it. Pure.
#pragma once

#include <span>
#include <vector>

#include "backend/cuda/mask/mask_plan.h"
#include "backend/prepared_update.h"

namespace xorbit::cuda {

// counted_sums: by tile. Compares the sums of every frame with its record's, unless options.partial. kRefused as
// Backend::Prepare. staged_bytes is left to the caller.
Result<PrepareReport> ReportOfMasks(const MaskPlan& plan, std::span<const PayloadView> payloads,
                                    std::span<const PayloadCounters> counters, std::span<const TileSums> counted_sums,
                                    const PrepareOptions& options);

}  // namespace xorbit::cuda
