// How fast a GPU finds and codes changes, stage by stage, against only reading both states.
#pragma once

#include "backend/cuda/testing/timing.h"

namespace xorbit::cuda::testing {

struct SendBenchOptions {
  double gigabytes = 40;  // of each of the two states
  int repeats = 20;
  bool verify = true;  // compare the body with the CPU's
};

// Of BF16 changes of 1 %, old bytes in page-locked host memory: read over the bus as they are, and through the window.
void BenchPinnedSend(double gigabytes, Report* report);

// One-byte changes of 0.085 % of the bytes, and BF16 changes of 1 % of the elements.
void BenchSend(const SendBenchOptions& options, Report* report);

}  // namespace xorbit::cuda::testing
