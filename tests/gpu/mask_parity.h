// Updates of mask codecs against the CPU backend: every codec, decoder and live map; and frames that nobody vouches for.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "backend/cuda/testing/timing.h"

namespace xorbit::gpu_check {

// decoders: to try beside those that every machine has, as MaskOptions names them.
void CheckMasks(uint64_t first_seed, uint64_t count, std::span<const std::string> decoders, cuda::testing::Report* report);

// The last of these alone: at least `frame_count` frames by each of our decoding kernels, most of them damaged. Each is
// refused, or taken for what the stock decoder reads; nothing is written but its mask.
void CheckDamagedFrames(uint64_t first_seed, uint64_t frame_count, cuda::testing::Report* report);

}  // namespace xorbit::gpu_check
