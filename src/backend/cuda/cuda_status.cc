#include "backend/cuda/cuda_status.h"

#include <string>

namespace xorbit::cuda {

Status CudaStatus(cudaError_t error, std::string_view call) {
  if (error == cudaSuccess) return {};
  return IoError(std::string(call) + " failed: " + cudaGetErrorName(error) + ", " + cudaGetErrorString(error));
}

}  // namespace xorbit::cuda
