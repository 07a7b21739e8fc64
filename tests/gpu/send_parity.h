// The sender's payloads against the CPU backend's, byte by byte.
#pragma once

#include "backend/cuda/testing/timing.h"

namespace xorbit::gpu_check {

// Random layouts, owners, units and densities from none to all, for about so many seconds.
void CheckSendParity(uint64_t first_seed, double seconds, cuda::testing::Report* report);

}  // namespace xorbit::gpu_check
