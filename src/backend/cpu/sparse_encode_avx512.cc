// The sparse codec's encoding loop for AVX-512: a row is two vectors of 16 lanes, renormalised by one compress.
//
// A state's way through a row is what the loop waits for, so it is kept short. The quotient x / f comes from a product of
// floats that is rounded down at every step. The quotient is below 2^20 and the product short of it by 2^-20 of it at most, so
// it is the quotient or one less, never one more, and one comparison of the remainder tells which. Everything that depends on
// the symbol alone runs ahead.
#if defined(__x86_64__)

#include "backend/cpu/avx512.h"
#include "backend/cpu/sparse_kernels_simd.h"

namespace xorbit {
namespace {

struct Lanes {
  __m512i low;
  __m512i high;
};

// What coding needs of the symbols of 16 lanes.
struct Symbols {
  __m512i frequencies;
  __m512i cumulative;
  __m512 inverses;  // at most 1 / frequency
};

constexpr int kDown = _MM_FROUND_TO_ZERO | _MM_FROUND_NO_EXC;

XORBIT_AVX512 inline Symbols LoadSymbols(const uint32_t* packed, const uint8_t* symbols) {
  const __m512i index = _mm512_cvtepu8_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(symbols)));
  const __m512i entry = _mm512_i32gather_epi32(index, packed, 4);
  const __m512i frequencies = _mm512_and_si512(entry, Repeat32(0xffff));
  // A Newton step never ends above the inverse, except by rounding.
  const __m512 floats = _mm512_cvtepu32_ps(frequencies);
  const __m512 estimate = _mm512_rcp14_ps(floats);
  const __m512 factor = _mm512_fnmadd_round_ps(floats, estimate, _mm512_set1_ps(2), kDown);
  return {frequencies, _mm512_srli_epi32(entry, 16), _mm512_mul_round_ps(estimate, factor, kDown)};
}

XORBIT_AVX512 inline __mmask16 LanesThatEmit(__m512i states, const Symbols& symbols) {
  return _mm512_cmpge_epu32_mask(_mm512_srli_epi32(states, 32 - kFrequencyBits), symbols.frequencies);
}

// Codes the symbols of 16 lanes, of which those in `emit` lose their low word.
XORBIT_AVX512 inline __m512i EncodeHalfRow(__m512i states, const Symbols& symbols, __mmask16 emit) {
  const __m512i x = _mm512_mask_srli_epi32(states, emit, states, 16);
  const __m512 floats = _mm512_cvt_roundepu32_ps(x, kDown);
  const __m512i quotient = _mm512_cvttps_epu32(_mm512_mul_round_ps(floats, symbols.inverses, kDown));  // or one less
  const __m512i remainder = _mm512_sub_epi32(x, _mm512_mullo_epi32(quotient, symbols.frequencies));
  const __mmask16 is_less = _mm512_cmpge_epu32_mask(remainder, symbols.frequencies);
  const __m512i base = _mm512_add_epi32(_mm512_slli_epi32(quotient, kFrequencyBits), symbols.cumulative);
  const __m512i next = _mm512_add_epi32(base, remainder);
  const __m512i correction = _mm512_sub_epi32(Repeat32(kFrequencySum), symbols.frequencies);
  return _mm512_mask_add_epi32(next, is_less, next, correction);
}

// Stores the low words of the lanes in `emit`, lanes ascending, below *words.
XORBIT_AVX512 inline void EmitWords(const Lanes& states, uint32_t emit, uint16_t** words) {
  const auto emitted = static_cast<uint32_t>(_mm_popcnt_u32(emit));
  const __m512i all =
      _mm512_inserti64x4(_mm512_castsi256_si512(_mm512_cvtepi32_epi16(states.low)), _mm512_cvtepi32_epi16(states.high), 1);
  *words -= emitted;
  _mm512_mask_storeu_epi16(*words, _bzhi_u32(UINT32_MAX, emitted), _mm512_maskz_compress_epi16(emit, all));
}

}  // namespace

XORBIT_AVX512 void EncodeGroupsAvx512(TileEncode* tile) {
  Lanes states = {_mm512_load_si512(&tile->states[0]), _mm512_load_si512(&tile->states[16])};
  uint16_t* words = tile->words;
  for (uint32_t group = tile->group_count; group-- > 0;) {
    for (uint32_t row = tile->row_count; row-- > 0;) {
      const uint8_t* bytes = tile->symbols[row] + size_t{group} * kLanes;
      const uint32_t* packed = tile->tables[row]->packed.data();
      const Symbols low = LoadSymbols(packed, bytes);
      const Symbols high = LoadSymbols(packed, bytes + 16);
      const __mmask16 emit_low = LanesThatEmit(states.low, low);
      const __mmask16 emit_high = LanesThatEmit(states.high, high);
      EmitWords(states, _mm512_kunpackw(emit_high, emit_low), &words);
      states = {EncodeHalfRow(states.low, low, emit_low), EncodeHalfRow(states.high, high, emit_high)};
    }
  }
  _mm512_store_si512(&tile->states[0], states.low);
  _mm512_store_si512(&tile->states[16], states.high);
  tile->words = words;
}

}  // namespace xorbit

#endif
