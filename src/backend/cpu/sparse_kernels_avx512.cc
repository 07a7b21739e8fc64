// The sparse codec's decoding loop for AVX-512: two vectors of 16 lanes, renormalised by expand.
//
// A row costs a gather, a multiplication and an expand for 16 symbols. The raw bits of a whole group fit two vector loads, from
// which each lane takes its two words by a permutation and its bits by a funnel shift, so that gaps need no gathers. Measured
// on a Sapphire Rapids core; docs/design/codecs.md has the numbers.
#if defined(__x86_64__)

#include "backend/cpu/avx512.h"
#include "backend/cpu/sparse_kernels_simd.h"
#include "base/unit.h"

namespace xorbit {
namespace {

// A group's 32 lanes.
struct Lanes {
  __m512i low;
  __m512i high;
};

// One symbol of 16 lanes and their refill from *words.
XORBIT_AVX512 __m512i DecodeHalfRow(const uint32_t* table, __m512i* states, const uint8_t** words) {
  const __m512i slot_index = _mm512_and_si512(*states, _mm512_set1_epi32(kFrequencySum - 1));
  const __m512i slot = _mm512_i32gather_epi32(slot_index, table, 4);
  const __m512i quotient = _mm512_srli_epi32(*states, kFrequencyBits);
  const __m512i less_one = _mm512_and_si512(_mm512_srli_epi32(slot, 8), _mm512_set1_epi32(kFrequencySum - 1));
  const __m512i rest = _mm512_add_epi32(quotient, _mm512_srli_epi32(slot, 20));
  const __m512i next = _mm512_add_epi32(_mm512_mullo_epi32(less_one, quotient), rest);
  const __mmask16 need = _mm512_cmplt_epu32_mask(next, _mm512_set1_epi32(kStateFloor));
  const __m512i loaded = _mm512_cvtepu16_epi32(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(*words)));
  const __m512i refill = _mm512_maskz_expand_epi32(need, loaded);
  *states = _mm512_mask_or_epi32(next, need, _mm512_slli_epi32(next, 16), refill);
  *words += 2 * static_cast<size_t>(__builtin_popcount(need));
  return _mm512_and_si512(slot, _mm512_set1_epi32(0xff));
}

XORBIT_AVX512 Lanes DecodeRow(const uint32_t* table, Lanes* states, const uint8_t** words) {
  Lanes symbols;
  symbols.low = DecodeHalfRow(table, &states->low, words);
  symbols.high = DecodeHalfRow(table, &states->high, words);
  return symbols;
}

// Inclusive prefix sums of 16 lanes.
XORBIT_AVX512 __m512i PrefixSum(__m512i x) {
  const __m512i zero = _mm512_setzero_si512();
  x = _mm512_add_epi32(x, _mm512_alignr_epi32(x, zero, 15));
  x = _mm512_add_epi32(x, _mm512_alignr_epi32(x, zero, 14));
  x = _mm512_add_epi32(x, _mm512_alignr_epi32(x, zero, 12));
  return _mm512_add_epi32(x, _mm512_alignr_epi32(x, zero, 8));
}

XORBIT_AVX512 Lanes PrefixSum(const Lanes& x) {
  const __m512i low = PrefixSum(x.low);
  const __m512i low_total = _mm512_permutexvar_epi32(_mm512_set1_epi32(15), low);
  return {low, _mm512_add_epi32(PrefixSum(x.high), low_total)};
}

XORBIT_AVX512 uint32_t LastOf(const Lanes& x) {
  return static_cast<uint32_t>(_mm_extract_epi32(_mm512_extracti32x4_epi32(x.high, 3), 3));
}

XORBIT_AVX512 __m512i GapBitCounts(__m512i symbols) {
  const __mmask16 bucket = _mm512_cmpge_epu32_mask(symbols, _mm512_set1_epi32(kDirectGaps));
  return _mm512_maskz_sub_epi32(bucket, _mm512_srli_epi32(symbols, 2), _mm512_set1_epi32(2));
}

// The gaps of 16 lanes. `first` and `second` hold the group's 32 words of raw bits, last word first, and bits_begin the first
// bit of each lane.
XORBIT_AVX512 __m512i Gaps(__m512i symbols, __m512i bit_counts, __m512i bits_begin, __m512i first, __m512i second) {
  const __mmask16 bucket = _mm512_cmpge_epu32_mask(symbols, _mm512_set1_epi32(kDirectGaps));
  const __m512i mantissa = _mm512_or_si512(_mm512_and_si512(symbols, _mm512_set1_epi32(3)), _mm512_set1_epi32(4));
  const __m512i base = _mm512_mask_sllv_epi32(symbols, bucket, mantissa, bit_counts);
  const __m512i word = _mm512_srli_epi32(bits_begin, 5);
  const __m512i flip = _mm512_set1_epi32(15);
  const __m512i low_index = _mm512_xor_si512(word, flip);
  const __m512i high_index = _mm512_xor_si512(_mm512_add_epi32(word, _mm512_set1_epi32(1)), flip);
  const __m512i low = _mm512_permutex2var_epi32(first, low_index, second);
  const __m512i high = _mm512_permutex2var_epi32(first, high_index, second);
  const __m512i bits = _mm512_shrdv_epi32(low, high, bits_begin);  // the shift counts modulo 32
  const __m512i above = _mm512_sllv_epi32(_mm512_set1_epi32(-1), bit_counts);
  return _mm512_add_epi32(base, _mm512_andnot_si512(above, bits));
}

enum class GroupResult { kDone, kLongGap, kBad };

// Turns a row of gap symbols into offsets and consumes their raw bits. kLongGap: sums of 32 bits might wrap; nothing is
// consumed.
XORBIT_AVX512 GroupResult DecodeGaps(TileDecode* tile, const Lanes& symbols, uint32_t* offsets) {
  const Lanes counts = {GapBitCounts(symbols.low), GapBitCounts(symbols.high)};
  const Lanes ends = PrefixSum(counts);
  const __m512i begin = _mm512_set1_epi32(static_cast<int>(tile->bits_used % 32));
  const uint8_t* end = tile->region_end - 4 * (tile->bits_used / 32);
  const __m512i first = _mm512_loadu_si512(end - 64);
  const __m512i second = _mm512_loadu_si512(end - 128);
  const Lanes begins = {_mm512_add_epi32(begin, _mm512_sub_epi32(ends.low, counts.low)),
                        _mm512_add_epi32(begin, _mm512_sub_epi32(ends.high, counts.high))};
  const Lanes gaps = {Gaps(symbols.low, counts.low, begins.low, first, second),
                      Gaps(symbols.high, counts.high, begins.high, first, second)};
  const __m512i long_gaps = _mm512_set1_epi32(static_cast<int>(0xfc000000U));
  if (_mm512_test_epi32_mask(_mm512_or_si512(gaps.low, gaps.high), long_gaps) != 0) return GroupResult::kLongGap;
  const __m512i one = _mm512_set1_epi32(1);
  const Lanes sums = PrefixSum(Lanes{_mm512_add_epi32(gaps.low, one), _mm512_add_epi32(gaps.high, one)});
  const uint64_t last = uint64_t{tile->offset} + LastOf(sums);
  if (last > tile->span) return GroupResult::kBad;
  const __m512i base = _mm512_set1_epi32(static_cast<int>(tile->offset));
  _mm512_storeu_si512(offsets, _mm512_add_epi32(sums.low, base));
  _mm512_storeu_si512(offsets + 16, _mm512_add_epi32(sums.high, base));
  tile->offset = static_cast<uint32_t>(last);
  tile->bits_used += LastOf(ends);
  return GroupResult::kDone;
}

XORBIT_AVX512 __m512i LoadBytes(const uint8_t* bytes) {
  return _mm512_cvtepu8_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(bytes)));
}

// Planes [first, first + count), count at most 4, as the bytes of 32-bit lanes.
template <uint32_t kFirst, uint32_t kCount>
XORBIT_AVX512 Lanes DecodePlanes(const TileDecode& tile, Lanes* states, const uint8_t** words) {
  Lanes values = {_mm512_setzero_si512(), _mm512_setzero_si512()};
  for (uint32_t p = 0; p < kCount; ++p) {
    Lanes symbols;
    if (const DecodeTable* table = tile.planes[kFirst + p]) {
      symbols = DecodeRow(table->data(), states, words);
    } else {
      const uint8_t* bytes = tile.plane_bytes[kFirst + p] + tile.next;
      symbols = {LoadBytes(bytes), LoadBytes(bytes + 16)};
    }
    values.low = _mm512_or_si512(values.low, _mm512_slli_epi32(symbols.low, 8 * p));
    values.high = _mm512_or_si512(values.high, _mm512_slli_epi32(symbols.high, 8 * p));
  }
  return values;
}

XORBIT_AVX512 void StoreWide(uint8_t* target, __m512i low, __m512i high) {
  const __m512i first = _mm512_setr_epi32(0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23);
  const __m512i second = _mm512_add_epi32(first, _mm512_set1_epi32(8));
  _mm512_storeu_si512(target, _mm512_permutex2var_epi32(low, first, high));
  _mm512_storeu_si512(target + 64, _mm512_permutex2var_epi32(low, second, high));
}

// All planes of a group, stored as elements.
template <uint32_t kUnitBytes>
XORBIT_AVX512 void DecodeValues(const TileDecode& tile, Lanes* states, const uint8_t** words, uint8_t* target) {
  const Lanes values = DecodePlanes < 0, kUnitBytes < 4 ? kUnitBytes : 4 > (tile, states, words);
  if constexpr (kUnitBytes == 1) {
    _mm_storeu_si128(reinterpret_cast<__m128i*>(target), _mm512_cvtepi32_epi8(values.low));
    _mm_storeu_si128(reinterpret_cast<__m128i*>(target + 16), _mm512_cvtepi32_epi8(values.high));
  } else if constexpr (kUnitBytes == 2) {
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(target), _mm512_cvtepi32_epi16(values.low));
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(target + 32), _mm512_cvtepi32_epi16(values.high));
  } else if constexpr (kUnitBytes == 4) {
    _mm512_storeu_si512(target, values.low);
    _mm512_storeu_si512(target + 64, values.high);
  } else {
    const Lanes upper = DecodePlanes<4, 4>(tile, states, words);
    StoreWide(target, values.low, upper.low);
    StoreWide(target + 128, values.high, upper.high);
  }
}

template <uint32_t kUnitBytes>
XORBIT_AVX512 bool DecodeGroupsOf(TileDecode* tile, uint32_t* offsets, uint8_t* xors) {
  Lanes states = {_mm512_load_si512(&tile->states[0]), _mm512_load_si512(&tile->states[16])};
  const uint8_t* words = tile->region_begin + 2 * tile->words_used;
  bool long_gap = false;
  while (!long_gap) {
    uint32_t group_count = tile->SafeGroupCount();
    if (group_count == 0) break;
    for (; group_count > 0; --group_count) {
      if (tile->gaps != nullptr) {
        Lanes next_states = states;
        const uint8_t* next_words = words;
        const Lanes symbols = DecodeRow(tile->gaps->data(), &next_states, &next_words);
        const GroupResult result = DecodeGaps(tile, symbols, offsets + tile->next);
        if (result == GroupResult::kBad) return false;
        if (result == GroupResult::kLongGap) {
          long_gap = true;  // leave the group to the careful loop
          break;
        }
        states = next_states;
        words = next_words;
      }
      DecodeValues<kUnitBytes>(*tile, &states, &words, xors + size_t{tile->next} * kUnitBytes);
      tile->next += kLanes;
    }
    tile->words_used = static_cast<uint64_t>(words - tile->region_begin) / 2;
  }
  _mm512_store_si512(&tile->states[0], states.low);
  _mm512_store_si512(&tile->states[16], states.high);
  return true;
}

}  // namespace

bool DecodeGroupsAvx512(TileDecode* tile, uint32_t* offsets, uint8_t* xors) {
  return WithUnit(tile->unit_bytes, [&]<typename Unit>() { return DecodeGroupsOf<sizeof(Unit)>(tile, offsets, xors); });
}

}  // namespace xorbit

#endif
