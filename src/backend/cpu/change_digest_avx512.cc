// Digests of changes for AVX-512, 8 changes at a time, each with its own block.
//
// A 64-bit product is three instructions, so it is only taken where a full one is needed: for the block's mix, for the weights
// and for lane 1. Products of lane 0 and a 32-bit word go by 52-bit multiply-adds as in kernels_avx512.cc: a weight's low 20
// bits exactly, its high 44 bits modulo 2^44, because they count 2^20-fold.
#if defined(__x86_64__)

#include "backend/cpu/avx512.h"
#include "backend/cpu/sparse_kernels_simd.h"
#include "base/unit.h"

namespace xorbit {
namespace {

// Sums over 8 lanes; of lane 0 by the low 20 and the high 44 bits of the weights.
struct Sums {
  __m512i before[2] = {};
  __m512i after[2] = {};
  __m512i lane1_change = {};
};

// 8 elements, each in the low bits of its lane.
template <typename Unit>
XORBIT_AVX512 inline __m512i LoadUnits(const uint8_t* units) {
  if constexpr (sizeof(Unit) == 1) return _mm512_cvtepu8_epi64(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(units)));
  if constexpr (sizeof(Unit) == 2) return _mm512_cvtepu16_epi64(_mm_loadu_si128(reinterpret_cast<const __m128i*>(units)));
  if constexpr (sizeof(Unit) == 4) return _mm512_cvtepu32_epi64(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(units)));
  if constexpr (sizeof(Unit) == 8) return _mm512_loadu_si512(units);
}

// The factors of 8 words, by the low four bits of their index.
XORBIT_AVX512 inline __m512i WordFactors(uint32_t lane, __m512i words) {
  const uint64_t* factors = kDigestWordFactors[lane].data();
  return _mm512_permutex2var_epi64(_mm512_loadu_si512(factors), words, _mm512_loadu_si512(factors + 8));
}

// Adds 8 words of blocks with the factors h0 and h1. Words are 32 bits, in place.
XORBIT_AVX512 inline void AddWords(__m512i h0, __m512i h1, __m512i words, __m512i olds, __m512i news, Sums* sums) {
  const __m512i weights = _mm512_mullo_epi64(h0, WordFactors(0, words));
  const __m512i parts[2] = {_mm512_and_si512(weights, Repeat(0xfffff)), _mm512_srli_epi64(weights, 20)};
  for (uint32_t part = 0; part < 2; ++part) {
    sums->before[part] = _mm512_madd52lo_epu64(sums->before[part], parts[part], olds);
    sums->after[part] = _mm512_madd52lo_epu64(sums->after[part], parts[part], news);
  }
  const __m512i weights1 = _mm512_mullo_epi64(h1, WordFactors(1, words));
  sums->lane1_change = _mm512_add_epi64(sums->lane1_change, _mm512_mullo_epi64(weights1, _mm512_sub_epi64(news, olds)));
}

template <typename Unit>
XORBIT_AVX512 void WeighUnits(const ChangeStretch& stretch, ChangeDigest* sum) {
  constexpr uint32_t kShift = sizeof(Unit) == 1 ? 0 : sizeof(Unit) == 2 ? 1 : sizeof(Unit) == 4 ? 2 : 3;
  Sums sums;
  for (uint64_t i = 0; i + 8 <= stretch.count; i += 8) {
    const __m512i offsets = _mm512_cvtepu32_epi64(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(stretch.offsets + i)));
    const __m512i at = _mm512_add_epi64(Repeat(stretch.origin), _mm512_slli_epi64(offsets, kShift));
    const __m512i h = SplitMix8(stretch.tensor_key, _mm512_srli_epi64(at, 6));
    const __m512i h0 = _mm512_or_si512(h, Repeat(1));
    const __m512i h1 = _mm512_or_si512(_mm512_rol_epi64(h, 32), Repeat(1));
    const __m512i words = _mm512_srli_epi64(at, 2);
    const __m512i olds = LoadUnits<Unit>(stretch.olds + i * sizeof(Unit));
    const __m512i news = _mm512_xor_si512(olds, LoadUnits<Unit>(stretch.xors + i * sizeof(Unit)));
    if constexpr (sizeof(Unit) == 8) {
      const __m512i low_word = Repeat(0xffffffff);
      AddWords(h0, h1, words, _mm512_and_si512(olds, low_word), _mm512_and_si512(news, low_word), &sums);
      const __m512i next_words = _mm512_add_epi64(words, Repeat(1));
      AddWords(h0, h1, next_words, _mm512_srli_epi64(olds, 32), _mm512_srli_epi64(news, 32), &sums);
    } else {
      const __m512i shift = _mm512_slli_epi64(_mm512_and_si512(at, Repeat(3)), 3);
      AddWords(h0, h1, words, _mm512_sllv_epi64(olds, shift), _mm512_sllv_epi64(news, shift), &sums);
    }
  }
  sum->before += SumOf(sums.before[0]) + (SumOf(sums.before[1]) << 20);
  sum->after += SumOf(sums.after[0]) + (SumOf(sums.after[1]) << 20);
  sum->lane1_change += SumOf(sums.lane1_change);
}

}  // namespace

void WeighStretchAvx512(uint32_t unit_bytes, const ChangeStretch& stretch, ChangeDigest* sum) {
  WithUnit(unit_bytes, [&]<typename Unit>() { WeighUnits<Unit>(stretch, sum); });
  const uint64_t done = stretch.count / 8 * 8;
  ChangeStretch rest = stretch;
  rest.count -= done;
  rest.offsets += done;
  rest.olds += done * unit_bytes;
  rest.xors += done * unit_bytes;
  WeighStretchPortable(unit_bytes, rest, sum);
}

}  // namespace xorbit

#endif
