// CUDA's error codes as values: which call failed, and CUDA's own words for it.
#pragma once

#include <cuda_runtime_api.h>

#include <string_view>

#include "base/status.h"

namespace xorbit::cuda {

// Success, or kIo with "<call> failed: <CUDA's name and description>". `call` says what was called and for what.
Status CudaStatus(cudaError_t error, std::string_view call);

// Loads a kernel, which the driver otherwise does when it is first launched: milliseconds, not to be spent in a pause. `name`
// is for the message.
Status LoadKernel(const void* kernel, std::string_view name);

}  // namespace xorbit::cuda
