// What a decoder that marks groups has left in a slot, as the mask that it stands for. No product code includes it.
#pragma once

#include <span>

#include "backend/cuda/mask/frame_on_device.h"
#include "base/bytes.h"

namespace xorbit::cuda::testing {

// Zero where no group is marked.
inline Buffer MarkedMask(ConstBytes mask, std::span<const uint32_t> groups) {
  Buffer marked(mask.begin(), mask.end());
  for (size_t at = 0; at < marked.size(); ++at) {
    const size_t group = at / kGroupBytes;
    if ((groups[group / 32] >> group % 32 & 1) == 0) marked[at] = 0;
  }
  return marked;
}

}  // namespace xorbit::cuda::testing
