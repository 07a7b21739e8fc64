// CUDA's error codes as values: which call failed, and CUDA's own words for it.
#pragma once

#include <cuda_runtime_api.h>

#include <string_view>

#include "base/status.h"

namespace xorbit::cuda {

// Success, or kIo with "<call> failed: <CUDA's name and description>". `call` says what was called and for what.
Status CudaStatus(cudaError_t error, std::string_view call);

}  // namespace xorbit::cuda
