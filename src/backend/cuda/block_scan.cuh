// Sums of what lies before each of many numbers, by one block: for the short lists between a sender's stages, where a scan over
// the whole device would take longer to start.
#pragma once

#include "backend/cuda/warp.h"

namespace xorbit::cuda {

inline constexpr uint32_t kScanBlockThreads = 1024;

// Calls store(i, sum of load(j) for j < i) for i in [0, count) and returns the whole sum. One block of kScanBlockThreads;
// `load` of an index comes before its `store`, by the same thread.
template <typename Load, typename Store>
__device__ uint64_t BlockScan(uint64_t count, Load&& load, Store&& store) {
  constexpr uint32_t kEach = 8;
  constexpr uint32_t kWarps = kScanBlockThreads / kWarpLanes;
  __shared__ uint64_t warp_sums[kWarps];
  const uint32_t warp = threadIdx.x / kWarpLanes;
  uint64_t before = 0;
  for (uint64_t base = 0; base < count; base += kScanBlockThreads * kEach) {
    const uint64_t first = base + threadIdx.x * kEach;
    uint64_t values[kEach];
    uint64_t own = 0;
#pragma unroll
    for (uint32_t k = 0; k < kEach; ++k) {
      values[k] = first + k < count ? load(first + k) : 0;
      own += values[k];
    }
    uint64_t inclusive = own;
#pragma unroll
    for (uint32_t distance = 1; distance < kWarpLanes; distance *= 2) {
      const uint64_t below = __shfl_up_sync(kAllLanes, inclusive, distance);
      if (Lane() >= distance) inclusive += below;
    }
    if (Lane() == kWarpLanes - 1) warp_sums[warp] = inclusive;
    __syncthreads();
    uint64_t at = before + inclusive - own;
    uint64_t total = 0;
    for (uint32_t w = 0; w < kWarps; ++w) {
      const uint64_t sum = warp_sums[w];
      if (w < warp) at += sum;
      total += sum;
    }
#pragma unroll
    for (uint32_t k = 0; k < kEach; ++k) {
      if (first + k < count) store(first + k, at);
      at += values[k];
    }
    before += total;
    __syncthreads();
  }
  return before;
}

}  // namespace xorbit::cuda
