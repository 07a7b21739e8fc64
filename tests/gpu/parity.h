// Random updates on the device against the CPU: pre-flight's verdict and sums, every way to apply, undo, digests, and payloads
// that were tampered with.
#pragma once

#include "backend/cuda/testing/timing.h"

namespace xorbit::gpu_check {

// Seeds first_seed .. first_seed + count - 1; each failure names its seed.
void CheckParity(uint64_t first_seed, uint64_t count, cuda::testing::Report* report);

}  // namespace xorbit::gpu_check
