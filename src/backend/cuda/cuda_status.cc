#include "backend/cuda/cuda_status.h"

#include <string>

namespace xorbit::cuda {

Status CudaStatus(cudaError_t error, std::string_view call) {
  if (error == cudaSuccess) return {};
  return IoError(std::string(call) + " failed: " + cudaGetErrorName(error) + ", " + cudaGetErrorString(error));
}

Status LoadKernel(const void* kernel, std::string_view name) {
  cudaFuncAttributes attributes{};  // the question loads it
  return CudaStatus(cudaFuncGetAttributes(&attributes, kernel), "cudaFuncGetAttributes of " + std::string(name));
}

}  // namespace xorbit::cuda
