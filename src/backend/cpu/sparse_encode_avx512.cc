// The sparse codec's encoding loop for AVX-512: two vectors of 16 lanes, renormalised by compress.
#if defined(__x86_64__)

#include "backend/cpu/avx512.h"
#include "backend/cpu/sparse_kernels_simd.h"

namespace xorbit {
namespace {

struct Lanes {
  __m512i low;
  __m512i high;
};

XORBIT_AVX512 __m512i LoadBytes(const uint8_t* bytes) {
  return _mm512_cvtepu8_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(bytes)));
}

// Codes one symbol of 16 lanes; the words that fall out, lanes ascending, go below *words.
XORBIT_AVX512 __m512i EncodeHalfRow(const uint32_t* packed, const uint8_t* symbols, __m512i states, uint16_t** words) {
  const __m512i entry = _mm512_i32gather_epi32(LoadBytes(symbols), packed, 4);
  const __m512i frequency = _mm512_and_si512(entry, _mm512_set1_epi32(0xffff));
  const __m512i cumulative = _mm512_srli_epi32(entry, 16);
  const __mmask16 emit = _mm512_cmpge_epu32_mask(_mm512_srli_epi32(states, 32 - kFrequencyBits), frequency);
  const auto emitted = static_cast<uint32_t>(__builtin_popcount(emit));
  const __m256i fallen = _mm512_cvtepi32_epi16(_mm512_maskz_compress_epi32(emit, states));
  *words -= emitted;
  _mm256_mask_storeu_epi16(*words, static_cast<__mmask16>((1U << emitted) - 1), fallen);
  const __m512i x = _mm512_mask_srli_epi32(states, emit, states, 16);
  // The quotient is below 2^20 and the float product within 2^-22 of it, so the guess is off by one at most; the remainder
  // tells.
  const __m512 floats = _mm512_cvtepu32_ps(frequency);
  const __m512 estimate = _mm512_rcp14_ps(floats);
  const __m512 inverse = _mm512_mul_ps(estimate, _mm512_fnmadd_ps(floats, estimate, _mm512_set1_ps(2)));
  const __m512i guess = _mm512_cvttps_epu32(_mm512_mul_ps(_mm512_cvtepu32_ps(x), inverse));
  const __m512i remainder = _mm512_sub_epi32(x, _mm512_mullo_epi32(guess, frequency));
  const __m512i one = _mm512_set1_epi32(1);
  const __mmask16 negative = _mm512_movepi32_mask(remainder);
  const __mmask16 large = _mm512_cmpge_epi32_mask(remainder, frequency);
  __m512i quotient = _mm512_mask_sub_epi32(guess, negative, guess, one);
  quotient = _mm512_mask_add_epi32(quotient, large, quotient, one);
  // x + quotient * (sum - frequency) = quotient * sum + (x - quotient * frequency).
  __m512i rest = _mm512_mask_add_epi32(remainder, negative, remainder, frequency);
  rest = _mm512_mask_sub_epi32(rest, large, rest, frequency);
  return _mm512_add_epi32(_mm512_slli_epi32(quotient, kFrequencyBits), _mm512_add_epi32(rest, cumulative));
}

}  // namespace

XORBIT_AVX512 void EncodeGroupsAvx512(TileEncode* tile) {
  Lanes states = {_mm512_load_si512(&tile->states[0]), _mm512_load_si512(&tile->states[16])};
  uint16_t* words = tile->words;
  for (uint32_t group = tile->group_count; group-- > 0;) {
    for (uint32_t row = tile->row_count; row-- > 0;) {
      const uint8_t* symbols = tile->symbols[row] + size_t{group} * kLanes;
      const uint32_t* packed = &tile->tables[row]->packed[0];
      states.high = EncodeHalfRow(packed, symbols + 16, states.high, &words);
      states.low = EncodeHalfRow(packed, symbols, states.low, &words);
    }
  }
  _mm512_store_si512(&tile->states[0], states.low);
  _mm512_store_si512(&tile->states[16], states.high);
  tile->words = words;
}

}  // namespace xorbit

#endif
