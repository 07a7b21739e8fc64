#include "backend/cpu/cpu_codec.h"

#include "backend/cpu/sparse_kernels_simd.h"
#include "codec/sparse_codec.h"

namespace xorbit {
namespace {

const Codec* SparseCodecOf(CpuLevel level) {
#if defined(__x86_64__)
  if (level == CpuLevel::kAvx512) {
    static constexpr SparseKernels kKernels = {&DecodeGroupsAvx512, &EncodeGroupsAvx512};
    static const SparseCodec codec(kKernels);
    return &codec;
  }
  if (level == CpuLevel::kAvx2) {
    // Encoding needs scattered stores of words, which AVX2 does not speed up.
    static const SparseKernels kernels = {&DecodeGroupsAvx2, PortableSparseKernels().encode_groups};
    static const SparseCodec codec(kernels);
    return &codec;
  }
#else
  static_cast<void>(level);
#endif
  return PortableSparseCodec();
}

}  // namespace

const Codec* CpuCodec(CodecId id, CpuLevel level) { return id == CodecId::kSparse ? SparseCodecOf(level) : FindCodec(id); }

}  // namespace xorbit
