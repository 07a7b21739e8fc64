// Sums of what lies before each of many numbers, in two launches: each block adds up a chunk of them, then each adds what the
// chunks before it have. A single block would take the chunks one after the other, and wait for memory each time.
#pragma once

#include "backend/cuda/warp.h"

namespace xorbit::cuda {

// Numbers of a chunk.
inline constexpr uint32_t kScanChunk = 256;

// The sum over the block's threads before this one; *total: over all of them.
template <uint32_t kThreads = kScanChunk>
__device__ __forceinline__ uint64_t SumBefore(uint64_t value, uint64_t* total) {
  constexpr uint32_t kWarps = kThreads / kWarpLanes;
  __shared__ uint64_t warp_sums[kWarps];
  uint64_t inclusive = value;
#pragma unroll
  for (uint32_t distance = 1; distance < kWarpLanes; distance *= 2) {
    const uint64_t below = __shfl_up_sync(kAllLanes, inclusive, distance);
    if (Lane() >= distance) inclusive += below;
  }
  if (Lane() == kWarpLanes - 1) warp_sums[threadIdx.x / kWarpLanes] = inclusive;
  __syncthreads();
  uint64_t before = inclusive - value;
  *total = 0;
#pragma unroll
  for (uint32_t w = 0; w < kWarps; ++w) {
    if (w < threadIdx.x / kWarpLanes) before += warp_sums[w];
    *total += warp_sums[w];
  }
  __syncthreads();
  return before;
}

// The sum of the first `count` chunks, for all threads of the block.
__device__ __forceinline__ uint64_t SumOfChunks(const uint64_t* chunk_sums, uint64_t count) {
  uint64_t own = 0;
  for (uint64_t c = threadIdx.x; c < count; c += kScanChunk) own += chunk_sums[c];
  uint64_t total = 0;
  SumBefore(own, &total);
  return total;
}

}  // namespace xorbit::cuda
