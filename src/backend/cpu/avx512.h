// What the files of AVX-512 kernels share. Only they include it, and only on x86-64: it sets the level's target attribute and
// silences a compiler's false warning.
#pragma once

// GCC 12 calls the deliberately undefined values in its own intrinsics uninitialized (GCC bug 105593).
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC diagnostic ignored "-Wuninitialized"
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#endif

#include <immintrin.h>

#include <cstdint>

#define XORBIT_AVX512                                                                                        \
  __attribute__((                                                                                            \
      target("avx512f,avx512bw,avx512dq,avx512vl,avx512vbmi,avx512vbmi2,avx512ifma,avx512cd,bmi,bmi2,lzcnt," \
             "popcnt")))

namespace xorbit {

XORBIT_AVX512 inline __m512i Repeat(uint64_t value) { return _mm512_set1_epi64(static_cast<int64_t>(value)); }
XORBIT_AVX512 inline __m512i Repeat32(uint32_t value) { return _mm512_set1_epi32(static_cast<int32_t>(value)); }

// The sum of 8 lanes, modulo 2^64. Not _mm512_reduce_add_epi64: GCC 12 writes it as an addition of signed numbers, which must
// not overflow.
XORBIT_AVX512 inline uint64_t SumOf(__m512i vector) {
  alignas(64) uint64_t lanes[8];
  _mm512_store_si512(lanes, vector);
  uint64_t sum = 0;
  for (const uint64_t lane : lanes) sum += lane;
  return sum;
}

// splitmix64 of tensor_key ^ block for 8 blocks at once.
XORBIT_AVX512 inline __m512i SplitMix8(uint64_t tensor_key, __m512i blocks) {
  __m512i x = _mm512_add_epi64(_mm512_xor_si512(blocks, Repeat(tensor_key)), Repeat(0x9e3779b97f4a7c15));
  x = _mm512_mullo_epi64(_mm512_xor_si512(x, _mm512_srli_epi64(x, 30)), Repeat(0xbf58476d1ce4e5b9));
  x = _mm512_mullo_epi64(_mm512_xor_si512(x, _mm512_srli_epi64(x, 27)), Repeat(0x94d049bb133111eb));
  return _mm512_xor_si512(x, _mm512_srli_epi64(x, 31));
}

}  // namespace xorbit
