// How the sender's kernels are launched: as many warps as the device holds, which take strips, groups or tiles in turn.
#pragma once

#include <algorithm>
#include <string>

#include "backend/cuda/cuda_status.h"
#include "backend/cuda/send_on_device.h"
#include "backend/cuda/warp.h"
#include "base/unit.h"

namespace xorbit::cuda {

inline constexpr uint32_t kSendThreads = 256;
inline constexpr uint32_t kSendWarps = kSendThreads / kWarpLanes;

__device__ __forceinline__ uint64_t FirstItem() { return uint64_t{blockIdx.x} * kSendWarps + threadIdx.x / kWarpLanes; }
__device__ __forceinline__ uint64_t ItemStride() { return uint64_t{gridDim.x} * kSendWarps; }

template <typename Kernel, typename... Arguments>
Status LaunchSend(const char* name, Kernel* kernel, uint64_t item_count, uint32_t blocks_each, uint32_t shared_bytes,
                  cudaStream_t stream, const Arguments&... arguments) {
  if (item_count == 0) return {};
  int device = 0;
  int multiprocessors = 0;
  XORBIT_RETURN_IF_ERROR(CudaStatus(cudaGetDevice(&device), "cudaGetDevice"));
  XORBIT_RETURN_IF_ERROR(CudaStatus(cudaDeviceGetAttribute(&multiprocessors, cudaDevAttrMultiProcessorCount, device),
                                    "cudaDeviceGetAttribute of the multiprocessor count"));
  if (shared_bytes > 0) {
    // More than 48 KiB have to be asked for.
    XORBIT_RETURN_IF_ERROR(
        CudaStatus(cudaFuncSetAttribute(reinterpret_cast<const void*>(kernel), cudaFuncAttributeMaxDynamicSharedMemorySize,
                                        static_cast<int>(shared_bytes)),
                   std::string("cudaFuncSetAttribute of ") + name));
  }
  const uint64_t blocks = std::min<uint64_t>(DivideRoundUp(item_count, uint64_t{kSendWarps}),
                                             uint64_t{blocks_each} * static_cast<uint32_t>(multiprocessors));
  kernel<<<static_cast<uint32_t>(blocks), kSendThreads, shared_bytes, stream>>>(arguments...);
  return CudaStatus(cudaGetLastError(), std::string("launch of ") + name);
}

}  // namespace xorbit::cuda
