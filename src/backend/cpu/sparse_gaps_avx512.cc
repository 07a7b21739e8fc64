// What an encoder does to all changes before rANS, for AVX-512: gap symbols and raw gap bits, value planes.
//
// Raw bits are joined in the vector, two gaps, four or eight to a field of at most 56 bits, before they go to the writer one by
// one: its state is the only thing that is carried from field to field.
#if defined(__x86_64__)

#include "backend/cpu/avx512.h"
#include "backend/cpu/sparse_kernels_simd.h"
#include "base/unit.h"

namespace xorbit {
namespace {

// 16 gaps as symbols and raw bits, a lane each.
struct Gaps {
  __m512i symbols;
  __m512i bits;
  __m512i bit_counts;
};

XORBIT_AVX512 inline Gaps CodeGaps(__m512i gaps) {
  const __m512i bucketed = _mm512_max_epu32(gaps, Repeat32(kDirectGaps));
  // The exponent is at least 4; the two bits below the leading one are the symbol's.
  const __m512i raw_bits = _mm512_sub_epi32(Repeat32(29), _mm512_lzcnt_epi32(bucketed));  // exponent - 2
  const __m512i octave = _mm512_add_epi32(_mm512_slli_epi32(raw_bits, 2), Repeat32(4));
  const __m512i symbols = _mm512_add_epi32(octave, _mm512_srlv_epi32(bucketed, raw_bits));
  const __mmask16 is_bucket = _mm512_cmpge_epu32_mask(gaps, Repeat32(kDirectGaps));
  const __m512i bit_counts = _mm512_maskz_mov_epi32(is_bucket, raw_bits);
  const __m512i above = _mm512_sllv_epi32(Repeat32(UINT32_MAX), bit_counts);
  return {_mm512_mask_mov_epi32(gaps, is_bucket, symbols), _mm512_andnot_si512(above, gaps), bit_counts};
}

XORBIT_AVX512 inline __m512i LoadPositions(const uint16_t* positions) {
  return _mm512_cvtepu16_epi32(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(positions)));
}

// Up to 8 bit fields, a 64-bit lane each.
struct Fields {
  __m512i bits;
  __m512i bit_counts;
};

// Two gaps a field: at most 58 bits.
XORBIT_AVX512 inline Fields JoinPairs(const Gaps& gaps) {
  const __m512i even = Repeat(0xffffffff);
  const __m512i low_counts = _mm512_and_si512(gaps.bit_counts, even);
  const __m512i high = _mm512_sllv_epi64(_mm512_srli_epi64(gaps.bits, 32), low_counts);
  return {_mm512_or_si512(_mm512_and_si512(gaps.bits, even), high),
          _mm512_add_epi64(low_counts, _mm512_srli_epi64(gaps.bit_counts, 32))};
}

// Joins each field with the one kStep lanes above it; only every 2 * kStep-th lane of the result means something.
template <int kStep>
XORBIT_AVX512 inline Fields JoinNext(const Fields& fields) {
  const __m512i above = _mm512_alignr_epi64(fields.bits, fields.bits, kStep);
  const __m512i counts_above = _mm512_alignr_epi64(fields.bit_counts, fields.bit_counts, kStep);
  return {_mm512_or_si512(fields.bits, _mm512_sllv_epi64(above, fields.bit_counts)),
          _mm512_add_epi64(fields.bit_counts, counts_above)};
}

XORBIT_AVX512 inline bool TooLong(const Fields& fields, __mmask8 lanes) {
  return _mm512_mask_cmpgt_epu64_mask(lanes, fields.bit_counts, Repeat(BitWriter::kMaxBits)) != 0;
}

// Puts every kStep-th field.
template <uint32_t kStep>
XORBIT_AVX512 inline void PutFields(const Fields& fields, BitWriter* writer) {
  alignas(64) uint64_t bits[8];
  alignas(64) uint64_t bit_counts[8];
  _mm512_store_si512(bits, fields.bits);
  _mm512_store_si512(bit_counts, fields.bit_counts);
  for (uint32_t lane = 0; lane < 8; lane += kStep) {
    writer->Put(BitField{bits[lane], static_cast<uint32_t>(bit_counts[lane])});
  }
}

XORBIT_AVX512 inline void PutBits(const Gaps& gaps, BitWriter* writer) {
  const Fields pairs = JoinPairs(gaps);
  const Fields fours = JoinNext<1>(pairs);
  if (TooLong(fours, 0x55)) return PutFields<1>(pairs, writer);
  const Fields eights = JoinNext<2>(fours);
  if (TooLong(eights, 0x11)) return PutFields<2>(fours, writer);
  PutFields<4>(eights, writer);
}

template <typename Unit>
XORBIT_AVX512 void SplitUnits(const uint8_t* values, uint32_t count, uint8_t* const* planes) {
  constexpr uint32_t kStep = 64 / sizeof(Unit);
  for (uint32_t i = 0; i < count; i += kStep) {
    const uint32_t rest = count - i < kStep ? count - i : kStep;
    const __mmask64 inside = _bzhi_u64(~uint64_t{0}, rest);
    const __mmask64 inside_bytes = _bzhi_u64(~uint64_t{0}, rest * static_cast<uint32_t>(sizeof(Unit)));
    __m512i units = _mm512_maskz_loadu_epi8(inside_bytes, values + size_t{i} * sizeof(Unit));
    for (uint32_t plane = 0; plane < sizeof(Unit); ++plane) {
      if constexpr (sizeof(Unit) == 1) {
        _mm512_mask_storeu_epi8(planes[plane] + i, inside, units);
      } else if constexpr (sizeof(Unit) == 2) {
        _mm256_mask_storeu_epi8(planes[plane] + i, static_cast<__mmask32>(inside), _mm512_cvtepi16_epi8(units));
        units = _mm512_srli_epi16(units, 8);
      } else if constexpr (sizeof(Unit) == 4) {
        _mm_mask_storeu_epi8(planes[plane] + i, static_cast<__mmask16>(inside), _mm512_cvtepi32_epi8(units));
        units = _mm512_srli_epi32(units, 8);
      } else {
        _mm_mask_storeu_epi8(planes[plane] + i, static_cast<__mmask16>(inside), _mm512_cvtepi64_epi8(units));
        units = _mm512_srli_epi64(units, 8);
      }
    }
  }
}

// The bytes of 16 gaps as varints, a lane each: their bits, of which there is at least one, in sevenths.
XORBIT_AVX512 inline __m512i VarintBytes(__m512i gaps) {
  __m512i bytes = Repeat32(1);
  for (uint32_t bits = 7; bits < 32; bits += 7) {
    const __mmask16 longer = _mm512_cmpge_epu32_mask(gaps, Repeat32(1U << bits));
    bytes = _mm512_mask_add_epi32(bytes, longer, bytes, Repeat32(1));
  }
  return bytes;
}

}  // namespace

XORBIT_AVX512 void MakeGapsAvx512(const uint32_t* offsets, uint32_t count, GapCode* code) {
  BitWriter writer(code->bits);
  __m512i varint_bytes = _mm512_setzero_si512();
  code->symbols[0] = kNoGapSymbol;
  for (uint32_t i = 1; i < count; i += 16) {
    // Lanes past the last gap count as gaps of 0, which have no raw bits.
    const auto inside = static_cast<__mmask16>(_bzhi_u32(0xffff, count - i < 16 ? count - i : 16));
    const __m512i above = _mm512_sub_epi32(_mm512_maskz_loadu_epi32(inside, offsets + i), Repeat32(1));
    const __m512i values = _mm512_maskz_sub_epi32(inside, above, _mm512_maskz_loadu_epi32(inside, offsets + i - 1));
    const Gaps gaps = CodeGaps(values);
    _mm_mask_storeu_epi8(code->symbols + i, inside, _mm512_cvtepi32_epi8(gaps.symbols));
    varint_bytes = _mm512_mask_add_epi32(varint_bytes, inside, varint_bytes, VarintBytes(values));
    PutBits(gaps, &writer);
  }
  code->varint_bytes = static_cast<uint32_t>(_mm512_reduce_add_epi32(varint_bytes));
  code->bit_words = writer.Finish();
}

XORBIT_AVX512 void WindowGapsAvx512(const uint16_t* positions, uint32_t count, uint8_t* symbols) {
  for (uint32_t i = 1; i < count; i += 16) {
    const __m512i gaps =
        _mm512_sub_epi32(_mm512_sub_epi32(LoadPositions(positions + i), LoadPositions(positions + i - 1)), Repeat32(1));
    _mm_storeu_si128(reinterpret_cast<__m128i*>(symbols + i), _mm512_cvtepi32_epi8(CodeGaps(gaps).symbols));
  }
}

XORBIT_AVX512 void SplitPlanesAvx512(const uint8_t* values, uint32_t unit_bytes, uint32_t count, uint8_t* const* planes) {
  WithUnit(unit_bytes, [&]<typename Unit>() { SplitUnits<Unit>(values, count, planes); });
}

}  // namespace xorbit

#endif
