// Sixteen bytes that a lane reads or writes at once.
#pragma once

#include "backend/cuda/warp.h"

namespace xorbit::cuda {

struct alignas(kVectorBytes) WordVector {
  uint32_t words[4];

  XORBIT_DEVICE bool is_zero() const { return (words[0] | words[1] | words[2] | words[3]) == 0; }
};

}  // namespace xorbit::cuda
