// The sparse codec's decoding loop for AVX2: four vectors of 8 lanes, renormalised through a table of permutations, because
// AVX2 has no expand. Gaps stay scalar: without a funnel shift a vector version is no faster.
#if defined(__x86_64__)

#include <immintrin.h>

#include "backend/cpu/sparse_kernels_simd.h"
#include "base/unit.h"

#define XORBIT_AVX2 __attribute__((target("avx2,bmi,bmi2,lzcnt,popcnt")))

namespace xorbit {
namespace {

constexpr uint32_t kVectors = 4;

// For each mask of lanes that need a word: which of the next words each lane takes.
struct ExpandTable {
  alignas(64) uint8_t index[256][8];
};
constexpr ExpandTable kExpand = [] {
  ExpandTable table{};
  for (uint32_t mask = 0; mask < 256; ++mask) {
    uint8_t next = 0;
    for (uint32_t lane = 0; lane < 8; ++lane) {
      table.index[mask][lane] = next;
      if ((mask >> lane & 1) != 0) ++next;
    }
  }
  return table;
}();

XORBIT_AVX2 __m128i LoadHalf(const uint8_t* bytes) { return _mm_loadl_epi64(reinterpret_cast<const __m128i*>(bytes)); }

// One symbol of 8 lanes and their refill from *words.
XORBIT_AVX2 __m256i DecodeQuarterRow(const uint32_t* table, __m256i* states, const uint8_t** words) {
  const __m256i low_bits = _mm256_set1_epi32(kFrequencySum - 1);
  const __m256i slot = _mm256_i32gather_epi32(reinterpret_cast<const int*>(table), _mm256_and_si256(*states, low_bits), 4);
  const __m256i quotient = _mm256_srli_epi32(*states, kFrequencyBits);
  const __m256i less_one = _mm256_and_si256(_mm256_srli_epi32(slot, 8), low_bits);
  const __m256i rest = _mm256_add_epi32(quotient, _mm256_srli_epi32(slot, 20));
  const __m256i next = _mm256_add_epi32(_mm256_mullo_epi32(less_one, quotient), rest);
  const __m256i need = _mm256_cmpeq_epi32(_mm256_srli_epi32(next, 16), _mm256_setzero_si256());
  const auto mask = static_cast<uint32_t>(_mm256_movemask_ps(_mm256_castsi256_ps(need)));
  const __m256i loaded = _mm256_cvtepu16_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(*words)));
  const __m256i refill = _mm256_permutevar8x32_epi32(loaded, _mm256_cvtepu8_epi32(LoadHalf(kExpand.index[mask])));
  *states = _mm256_blendv_epi8(next, _mm256_or_si256(_mm256_slli_epi32(next, 16), refill), need);
  *words += 2 * static_cast<size_t>(__builtin_popcount(mask));
  return _mm256_and_si256(slot, _mm256_set1_epi32(0xff));
}

// The low bytes of 8 lanes.
XORBIT_AVX2 void StoreBytes(uint8_t* target, __m256i lanes) {
  const __m256i shorts = _mm256_packus_epi32(lanes, lanes);
  const __m256i bytes = _mm256_packus_epi16(shorts, shorts);
  const __m128i joined = _mm_unpacklo_epi32(_mm256_castsi256_si128(bytes), _mm256_extracti128_si256(bytes, 1));
  _mm_storel_epi64(reinterpret_cast<__m128i*>(target), joined);
}

XORBIT_AVX2 void DecodeRow(const uint32_t* table, __m256i* states, const uint8_t** words, uint8_t* symbols) {
  for (uint32_t v = 0; v < kVectors; ++v) StoreBytes(symbols + size_t{8} * v, DecodeQuarterRow(table, &states[v], words));
}

// Bytes of planes to elements.
template <uint32_t kUnitBytes>
XORBIT_AVX2 void Interleave(const uint8_t* const* planes, uint8_t* target) {
  if constexpr (kUnitBytes == 1) {
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(target), _mm256_loadu_si256(reinterpret_cast<const __m256i*>(planes[0])));
  } else {
    for (uint32_t lane = 0; lane < kLanes; ++lane) {
      for (uint32_t p = 0; p < kUnitBytes; ++p) target[lane * kUnitBytes + p] = planes[p][lane];
    }
  }
}

template <uint32_t kUnitBytes>
XORBIT_AVX2 bool DecodeGroupsOf(TileDecode* tile, uint32_t* offsets, uint8_t* xors) {
  __m256i states[kVectors];
  for (uint32_t v = 0; v < kVectors; ++v) {
    states[v] = _mm256_load_si256(reinterpret_cast<const __m256i*>(&tile->states[size_t{8} * v]));
  }
  const uint8_t* words = tile->region_begin + 2 * tile->words_used;
  alignas(32) uint8_t symbols[1 + kUnitBytes][kLanes];
  while (uint32_t group_count = tile->SafeGroupCount()) {
    for (; group_count > 0; --group_count) {
      if (tile->gaps != nullptr) {
        DecodeRow(tile->gaps->data(), states, &words, symbols[kUnitBytes]);
        if (!GapsOfSafeGroup(tile, symbols[kUnitBytes], offsets + tile->next)) return false;
      }
      const uint8_t* planes[kUnitBytes];
      for (uint32_t p = 0; p < kUnitBytes; ++p) {
        planes[p] = symbols[p];
        if (const DecodeTable* table = tile->planes[p]) {
          DecodeRow(table->data(), states, &words, symbols[p]);
        } else {
          planes[p] = tile->plane_bytes[p] + tile->next;
        }
      }
      Interleave<kUnitBytes>(planes, xors + size_t{tile->next} * kUnitBytes);
      tile->next += kLanes;
    }
    tile->words_used = static_cast<uint64_t>(words - tile->region_begin) / 2;
  }
  for (uint32_t v = 0; v < kVectors; ++v) {
    _mm256_store_si256(reinterpret_cast<__m256i*>(&tile->states[size_t{8} * v]), states[v]);
  }
  return true;
}

}  // namespace

bool DecodeGroupsAvx2(TileDecode* tile, uint32_t* offsets, uint8_t* xors) {
  return WithUnit(tile->unit_bytes, [&]<typename Unit>() { return DecodeGroupsOf<sizeof(Unit)>(tile, offsets, xors); });
}

}  // namespace xorbit

#endif
