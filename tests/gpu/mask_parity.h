// Updates of mask codecs against the CPU backend: every codec, decoder and live map; and frames that nobody vouches for.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "backend/cuda/testing/timing.h"

namespace xorbit::gpu_check {

// decoders: to try beside those that every machine has, as MaskOptions names them.
void CheckMasks(uint64_t first_seed, uint64_t count, std::span<const std::string> decoders, cuda::testing::Report* report);

}  // namespace xorbit::gpu_check
