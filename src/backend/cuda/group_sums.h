// How many changes a group of strips has, and the windows that it lies in, from what lines left: one warp a group.
#pragma once

#include "backend/cuda/send_on_device.h"
#include "backend/cuda/warp.h"

namespace xorbit::cuda {

// Adds to window_counts, and returns the group's sum in every lane.
XORBIT_DEVICE uint64_t SumGroup(const SendOnDevice& send, uint64_t group) {
  constexpr uint32_t kStripsAtOnce = kWarpLanes / kLinesPerStrip;
  constexpr uint32_t kBatches = kStripsPerGroup / kStripsAtOnce;
  const uint64_t first_strip = group * kStripsPerGroup + Lane() / kLinesPerStrip;
  uint64_t counts[kBatches];  // all loaded before any of them is used
#ifdef __CUDACC__
#pragma unroll
#endif
  for (uint32_t batch = 0; batch < kBatches; ++batch) {
    const uint64_t strip = first_strip + batch * kStripsAtOnce;
    const bool exists = strip < send.strip_count;
    counts[batch] = exists ? CountOfLine(send.lines[strip * kLinesPerStrip + Lane() % kLinesPerStrip]) : 0;
  }
  uint64_t sum = 0;
#ifdef __CUDACC__
#pragma unroll
#endif
  for (uint32_t pair = 0; pair < kBatches; pair += 2) {
    uint64_t both = counts[pair] | counts[pair + 1] << 32;
    for (uint32_t mask = kLinesPerStrip / 2; mask > 0; mask /= 2) both += ShuffleXor(both, mask);
    if (Lane() % kLinesPerStrip != 0) continue;
    sum += (both & 0xffffffff) + (both >> 32);
    for (uint32_t i = 0; i < 2; ++i) {
      const auto count = static_cast<uint32_t>(both >> (32 * i));
      if (count == 0) continue;
      const Strip& strip = send.strips[first_strip + (pair + i) * kStripsAtOnce];
      AtomicAdd(&send.window_counts[strip.first_element / kWindowElements], count);
    }
  }
  return WarpSum(sum);
}

}  // namespace xorbit::cuda
