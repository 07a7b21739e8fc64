// Updates of mask codecs against the CPU backend: every codec, decoder and live map; and frames that nobody vouches for.
#pragma once

#include <cstdint>

#include "backend/cuda/testing/timing.h"

namespace xorbit::gpu_check {

void CheckMasks(uint64_t first_seed, uint64_t count, cuda::testing::Report* report);

}  // namespace xorbit::gpu_check
