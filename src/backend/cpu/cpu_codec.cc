#include "backend/cpu/cpu_codec.h"

#include "backend/cpu/sparse_kernels_simd.h"
#include "codec/sparse_codec.h"

namespace xorbit {
namespace {

#if defined(__x86_64__)
constexpr SparseKernels kSparseAvx512 = {&DecodeGroupsAvx512, &EncodeGroupsAvx512, &MakeGapsAvx512,
                                         &WindowGapsAvx512,   &SplitPlanesAvx512,  &WeighStretchAvx512};

// Encoding needs scattered stores of words, counts of leading zeros and products of 64 bits, none of which AVX2 has.
SparseKernels SparseAvx2() {
  SparseKernels kernels = PortableSparseKernels();
  kernels.decode_groups = &DecodeGroupsAvx2;
  return kernels;
}

const Codec* SparseCodecOf(CpuLevel level) {
  static const SparseCodec avx512(SparseKernelsOf(CpuLevel::kAvx512));
  static const SparseCodec avx2(SparseKernelsOf(CpuLevel::kAvx2));
  if (level == CpuLevel::kAvx512) return &avx512;
  return level == CpuLevel::kAvx2 ? &avx2 : PortableSparseCodec();
}
#else
const Codec* SparseCodecOf(CpuLevel /*level*/) { return PortableSparseCodec(); }
#endif

}  // namespace

const SparseKernels& SparseKernelsOf(CpuLevel level) {
#if defined(__x86_64__)
  static const SparseKernels avx2 = SparseAvx2();
  if (level == CpuLevel::kAvx512) return kSparseAvx512;
  if (level == CpuLevel::kAvx2) return avx2;
#else
  static_cast<void>(level);
#endif
  return PortableSparseKernels();
}

const Codec* CpuCodec(CodecId id, CpuLevel level) { return id == CodecId::kSparse ? SparseCodecOf(level) : FindCodec(id); }

}  // namespace xorbit
