// Both shapes keep 64 KiB or more of each multiprocessor's loads in flight, which reads at full speed.
#include "backend/cuda/cuda_status.h"
#include "backend/cuda/testing/decode_kernels.h"
#include "backend/cuda/warp.h"

namespace xorbit::cuda::testing {
namespace {

constexpr uint32_t kLoads = 4;
constexpr uint32_t kSmallThreads = 256;
constexpr uint64_t kSmallVectors = 4096;  // 64 KiB a block
constexpr uint32_t kLargeThreads = 1024;

// Vectors [begin, end) by one block.
template <uint32_t kThreads>
__device__ __forceinline__ void ReadVectors(const uint4* from, uint64_t begin, uint64_t end, uint64_t* sink) {
  uint32_t sum = 0;
  uint64_t i = begin + threadIdx.x;
  for (; i + (kLoads - 1) * kThreads < end; i += kLoads * kThreads) {
    uint4 loaded[kLoads];
#pragma unroll
    for (uint32_t j = 0; j < kLoads; ++j) loaded[j] = __ldcs(from + i + j * kThreads);
#pragma unroll
    for (uint32_t j = 0; j < kLoads; ++j) sum += loaded[j].x ^ loaded[j].y ^ loaded[j].z ^ loaded[j].w;
  }
  for (; i < end; i += kThreads) sum += __ldcs(from + i).x;
  if (sum == 0x12345678) AtomicAdd(sink, sum);
}

__global__ void __launch_bounds__(kSmallThreads) ManyBlocksKernel(const uint4* from, uint64_t count, uint64_t* sink) {
  const uint64_t begin = uint64_t{blockIdx.x} * kSmallVectors;
  ReadVectors<kSmallThreads>(from, begin, begin + kSmallVectors < count ? begin + kSmallVectors : count, sink);
}

__global__ void __launch_bounds__(kLargeThreads, 1) PersistentKernel(const uint4* from, uint64_t count, uint64_t* sink) {
  const uint64_t share = (count + gridDim.x - 1) / gridDim.x;
  const uint64_t begin = blockIdx.x * share;
  ReadVectors<kLargeThreads>(from, begin, begin + share < count ? begin + share : count, sink);
}

}  // namespace

Status LaunchDecode(DecodeShape shape, const uint8_t* from_dev, uint64_t byte_count, uint64_t* sink_dev, cudaStream_t stream) {
  const auto* from = reinterpret_cast<const uint4*>(from_dev);
  const uint64_t count = byte_count / sizeof(uint4);
  if (shape == DecodeShape::kManyBlocks) {
    const auto blocks = static_cast<uint32_t>((count + kSmallVectors - 1) / kSmallVectors);
    ManyBlocksKernel<<<blocks, kSmallThreads, 0, stream>>>(from, count, sink_dev);
    return CudaStatus(cudaGetLastError(), "launch of a decode kernel of many blocks");
  }
  int device = 0;
  int multiprocessors = 0;
  int shared_bytes = 0;
  XORBIT_RETURN_IF_ERROR(CudaStatus(cudaGetDevice(&device), "cudaGetDevice"));
  XORBIT_RETURN_IF_ERROR(CudaStatus(cudaDeviceGetAttribute(&multiprocessors, cudaDevAttrMultiProcessorCount, device),
                                    "cudaDeviceGetAttribute of the multiprocessor count"));
  XORBIT_RETURN_IF_ERROR(CudaStatus(cudaDeviceGetAttribute(&shared_bytes, cudaDevAttrMaxSharedMemoryPerBlockOptin, device),
                                    "cudaDeviceGetAttribute of a block's shared memory"));
  XORBIT_RETURN_IF_ERROR(CudaStatus(cudaFuncSetAttribute(reinterpret_cast<const void*>(PersistentKernel),
                                                         cudaFuncAttributeMaxDynamicSharedMemorySize, shared_bytes),
                                    "cudaFuncSetAttribute of a decode kernel"));
  const auto blocks = static_cast<uint32_t>(multiprocessors);
  PersistentKernel<<<blocks, kLargeThreads, static_cast<size_t>(shared_bytes), stream>>>(from, count, sink_dev);
  return CudaStatus(cudaGetLastError(), "launch of a persistent decode kernel");
}

}  // namespace xorbit::cuda::testing
