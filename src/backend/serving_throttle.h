// How work before the pause makes room for an engine that serves on the same device.
#pragma once

#include <cstdint>

namespace xorbit {

// Kernels and copies of the background are cut into slices with pauses between them. Set by the receiver, which knows whether
// the engine serves: the default is for one that does (docs/design/cuda.md, "While serving"), None() for one that stands
// still. Only devices look at it: in host memory the number of threads is the limit.
struct ServingThrottle {
  // About how long a slice runs: the longest that the engine waits for what a slice holds. 0: nothing is cut, nothing waits.
  uint32_t slice_microseconds = 50;
  uint32_t blocks = 0;         // the most of one launch; 0: as many as the device holds
  double kernel_share = 0.02;  // of the time, in which kernels run: above 0, at most 1
  double copy_share = 0.25;    // likewise for copies to the device

  static ServingThrottle None() { return {0, 0, 1, 1}; }
};

}  // namespace xorbit
