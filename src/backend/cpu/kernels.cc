#include "backend/cpu/kernels.h"

#include <cassert>

namespace xorbit {

StateDigest DigestSums::Finish() const {
  StateDigest digest;
  for (uint32_t k = 0; k < kDigestWordsPerBlock; ++k) {
    digest.lane0 += kDigestWordFactors[0][k] * sums[0][k % 2][k / 2];
    digest.lane1 += kDigestWordFactors[1][k] * sums[1][k % 2][k / 2];
  }
  return digest;
}

const CpuKernels& KernelsOf(CpuLevel level) {
  switch (level) {
    case CpuLevel::kPortable:
      return kPortableKernels;
#if defined(__x86_64__)
    case CpuLevel::kAvx2:
      return kAvx2Kernels;
    case CpuLevel::kAvx512:
      return kAvx512Kernels;
    case CpuLevel::kNeon:
      break;
#elif defined(__aarch64__)
    case CpuLevel::kNeon:
      return kNeonKernels;
    case CpuLevel::kAvx2:
    case CpuLevel::kAvx512:
      break;
#else
    default:
      break;
#endif
  }
  assert(false);
  return kPortableKernels;
}

}  // namespace xorbit
