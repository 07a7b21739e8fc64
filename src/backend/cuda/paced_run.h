// Runs the background's work on a device beside an engine that serves there: in slices, each waited for, with pauses between.
//
// At most one slice is queued at any time, so an engine never finds several in its way, and a slice that waits for the engine
// delays only the next one.
#pragma once

#include <cuda_runtime_api.h>

#include <functional>

#include "backend/serving_throttle.h"
#include "base/bytes.h"
#include "base/status.h"

namespace xorbit::cuda {

// kUsage, saying which, if a share is not one.
Status CheckThrottle(const ServingThrottle& throttle);

// Puts units [begin, end) of the work into the stream.
using LaunchSlice = std::function<Status(uint64_t begin, uint64_t end)>;

// A kernel's work: each unit is at most one block's. Without a throttle it is one launch, in stream order; otherwise all of it
// has been done on success. On failure some slices may have run, or still be running.
Status RunPaced(uint64_t unit_count, const ServingThrottle& throttle, cudaStream_t stream, const LaunchSlice& launch);

// The same for a copy from host memory. `what` is for the message.
Status CopyPaced(void* to_dev, const void* from_host, uint64_t byte_count, const char* what, const ServingThrottle& throttle,
                 cudaStream_t stream);

}  // namespace xorbit::cuda
