// AVX-512 with VBMI2 and IFMA (Ice Lake, Zen 4 and later).
//
// Diff: 256 bytes a step; if anything changed, the positions of each vector's changed elements are compressed to the front of a
// register and the whole register is stored, so there is no branch per change. Their values follow batch by batch: one by one
// where they are few, compressed like the positions where they are many.
//
// Digest: a 52-bit multiply-add keeps the low 52 bits of each product. A factor h is split into lo (20 bits) and hi (44 bits):
// lo * u fits 52 bits exactly, and of hi * u only the low 44 bits matter because it counts 2^20-fold. So a lane costs two
// multiply-adds per 8 words and no other arithmetic.
#if defined(__x86_64__)

#include "backend/cpu/avx512.h"
#include "backend/cpu/kernels.h"
#include "base/bytes.h"

namespace xorbit {
namespace {

constexpr uint32_t kVectorBytes = 64;

// Bits of the first `count` elements, count <= 64.
XORBIT_AVX512 inline uint64_t FirstBits(uint32_t count) { return _bzhi_u64(~uint64_t{0}, count); }

template <typename T>
XORBIT_AVX512 inline uint64_t NonZeroBits(__m512i vector) {
  if constexpr (sizeof(T) == 1) return _mm512_test_epi8_mask(vector, vector);
  if constexpr (sizeof(T) == 2) return _mm512_test_epi16_mask(vector, vector);
  if constexpr (sizeof(T) == 4) return _mm512_test_epi32_mask(vector, vector);
  if constexpr (sizeof(T) == 8) return _mm512_test_epi64_mask(vector, vector);
}

template <typename T>
XORBIT_AVX512 inline __m512i Compress(uint64_t bits, __m512i vector) {
  if constexpr (sizeof(T) == 1) return _mm512_maskz_compress_epi8(bits, vector);
  if constexpr (sizeof(T) == 2) return _mm512_maskz_compress_epi16(static_cast<__mmask32>(bits), vector);
  if constexpr (sizeof(T) == 4) return _mm512_maskz_compress_epi32(static_cast<__mmask16>(bits), vector);
  if constexpr (sizeof(T) == 8) return _mm512_maskz_compress_epi64(static_cast<__mmask8>(bits), vector);
}

// 0, 1, ... 31 as 16-bit numbers.
alignas(64) constexpr uint16_t kIndices[32] = {0,  1,  2,  3,  4,  5,  6,  7,  8,  9,  10, 11, 12, 13, 14, 15,
                                               16, 17, 18, 19, 20, 21, 22, 23, 24, 25, 26, 27, 28, 29, 30, 31};

// Stores first_position + the index of every set bit among `kCount` elements; writes whole vectors.
template <uint32_t kCount>
XORBIT_AVX512 inline void StorePositions(uint64_t bits, uint32_t first_position, uint16_t* target) {
  if constexpr (kCount == 64) {
    StorePositions<32>(bits & 0xffffffff, first_position, target);
    StorePositions<32>(bits >> 32, first_position + 32, target + _mm_popcnt_u32(static_cast<uint32_t>(bits)));
  } else if constexpr (kCount == 32) {
    const __m512i all = _mm512_add_epi16(_mm512_load_si512(kIndices), _mm512_set1_epi16(static_cast<int16_t>(first_position)));
    _mm512_storeu_si512(target, _mm512_maskz_compress_epi16(static_cast<__mmask32>(bits), all));
  } else if constexpr (kCount == 16) {
    const __m256i indices = _mm256_load_si256(reinterpret_cast<const __m256i*>(kIndices));
    const __m256i all = _mm256_add_epi16(indices, _mm256_set1_epi16(static_cast<int16_t>(first_position)));
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(target), _mm256_maskz_compress_epi16(static_cast<__mmask16>(bits), all));
  } else {
    static_assert(kCount == 8);
    const __m128i indices = _mm_load_si128(reinterpret_cast<const __m128i*>(kIndices));
    const __m128i all = _mm_add_epi16(indices, _mm_set1_epi16(static_cast<int16_t>(first_position)));
    _mm_storeu_si128(reinterpret_cast<__m128i*>(target), _mm_maskz_compress_epi16(static_cast<__mmask8>(bits), all));
  }
}

// A diff goes over its bytes in batches that stay in the first-level cache between its two steps.
constexpr uint32_t kBatchVectors = 64;

// Stores the positions of the elements that differ, the first element's being `first_position`, and returns their number.
template <typename T>
XORBIT_AVX512 uint32_t FindChanged(const uint8_t* old_bytes, const uint8_t* new_bytes, uint32_t byte_count,
                                   uint32_t first_position, uint32_t old_ahead_bytes, uint16_t* positions) {
  constexpr uint32_t kVectorElements = kVectorBytes / sizeof(T);
  uint32_t count = 0;
  uint32_t at = 0;
  for (; byte_count - at >= 4 * kVectorBytes; at += 4 * kVectorBytes) {
    __m512i xors[4];
    for (uint32_t i = 0; i < 4; ++i) {
      const uint32_t vector_at = at + i * kVectorBytes;
      __builtin_prefetch(old_bytes + vector_at + old_ahead_bytes);
      __builtin_prefetch(new_bytes + vector_at + kDiffPrefetchBytes);
      xors[i] = _mm512_xor_si512(_mm512_loadu_si512(old_bytes + vector_at), _mm512_loadu_si512(new_bytes + vector_at));
    }
    const __m512i any = _mm512_or_si512(_mm512_or_si512(xors[0], xors[1]), _mm512_or_si512(xors[2], xors[3]));
    if (_mm512_test_epi64_mask(any, any) == 0) continue;
    const uint32_t position = first_position + at / static_cast<uint32_t>(sizeof(T));
    for (uint32_t i = 0; i < 4; ++i) {
      const uint64_t changed = NonZeroBits<T>(xors[i]);
      StorePositions<kVectorElements>(changed, position + i * kVectorElements, positions + count);
      count += static_cast<uint32_t>(_mm_popcnt_u64(changed));
    }
  }
  for (; at < byte_count; at += kVectorBytes) {
    const uint32_t rest = byte_count - at;
    const __mmask64 inside = FirstBits(rest < kVectorBytes ? rest : kVectorBytes);
    const __m512i xors =
        _mm512_xor_si512(_mm512_maskz_loadu_epi8(inside, old_bytes + at), _mm512_maskz_loadu_epi8(inside, new_bytes + at));
    const uint64_t changed = NonZeroBits<T>(xors);
    StorePositions<kVectorElements>(changed, first_position + at / static_cast<uint32_t>(sizeof(T)), positions + count);
    count += static_cast<uint32_t>(_mm_popcnt_u64(changed));
  }
  return count;
}

// Fetches the values of elements that differ: one by one, which is faster where they are few.
template <typename T>
XORBIT_AVX512 void FetchFew(const uint8_t* old_bytes, const uint8_t* new_bytes, uint32_t first_position,
                            const uint16_t* positions, uint32_t count, uint8_t* xors, uint8_t* olds) {
  for (uint32_t i = 0; i < count; ++i) {
    const size_t at = static_cast<uint16_t>(positions[i] - first_position) * sizeof(T);
    const auto old_bits = LoadLe<T>(old_bytes + at);
    StoreLe<T>(xors + i * sizeof(T), static_cast<T>(old_bits ^ LoadLe<T>(new_bytes + at)));
    StoreLe<T>(olds + i * sizeof(T), old_bits);
  }
}

// The same, a vector at a time.
template <typename T>
XORBIT_AVX512 void FetchMany(const uint8_t* old_bytes, const uint8_t* new_bytes, uint32_t byte_count, uint8_t* xors,
                             uint8_t* olds) {
  for (uint32_t at = 0; at < byte_count; at += kVectorBytes) {
    const uint32_t rest = byte_count - at;
    const __mmask64 inside = FirstBits(rest < kVectorBytes ? rest : kVectorBytes);
    const __m512i old_vector = _mm512_maskz_loadu_epi8(inside, old_bytes + at);
    const __m512i xor_vector = _mm512_xor_si512(old_vector, _mm512_maskz_loadu_epi8(inside, new_bytes + at));
    const uint64_t changed = NonZeroBits<T>(xor_vector);
    _mm512_storeu_si512(xors, Compress<T>(changed, xor_vector));
    _mm512_storeu_si512(olds, Compress<T>(changed, old_vector));
    const size_t stored_bytes = static_cast<size_t>(_mm_popcnt_u64(changed)) * sizeof(T);
    xors += stored_bytes;
    olds += stored_bytes;
  }
}

template <typename T>
XORBIT_AVX512 uint32_t Diff(const uint8_t* old_bytes, const uint8_t* new_bytes, uint32_t element_count, uint32_t first_position,
                            uint32_t old_ahead_bytes, const DiffOutput& output) {
  constexpr uint32_t kBatchBytes = kBatchVectors * kVectorBytes;
  const uint32_t byte_count = element_count * static_cast<uint32_t>(sizeof(T));
  uint32_t count = 0;
  for (uint32_t at = 0; at < byte_count; at += kBatchBytes) {
    const uint32_t batch_bytes = byte_count - at < kBatchBytes ? byte_count - at : kBatchBytes;
    const uint32_t position = first_position + at / static_cast<uint32_t>(sizeof(T));
    uint16_t* const positions = output.positions + count;
    uint8_t* const xors = output.xors + size_t{count} * sizeof(T);
    uint8_t* const olds = output.olds + size_t{count} * sizeof(T);
    const uint32_t found = FindChanged<T>(old_bytes + at, new_bytes + at, batch_bytes, position, old_ahead_bytes, positions);
    if (found <= 4 * kBatchVectors) {
      FetchFew<T>(old_bytes + at, new_bytes + at, position, positions, found, xors, olds);
    } else {
      FetchMany<T>(old_bytes + at, new_bytes + at, batch_bytes, xors, olds);
    }
    count += found;
  }
  return count;
}

// Blocks whose factors are computed ahead. With 8, which is one vector, GCC 12 unrolls the loop over blocks, keeps the factors
// in registers and shuffles each out: 6.7 ns a block instead of 2.7.
constexpr uint32_t kGroupBlocks = 64;

// The low 20 and the high 44 bits of h_0 and h_1, by lane and block.
struct alignas(64) GroupFactors {
  uint64_t low[2][kGroupBlocks];
  uint64_t high[2][kGroupBlocks];
};

// Computes at least `block_count` factors, in eights.
XORBIT_AVX512 inline void ComputeFactors(uint64_t tensor_key, uint64_t first_block, uint32_t block_count,
                                         GroupFactors* factors) {
  const __m512i one = Repeat(1);
  const __m512i low_bits = Repeat(0xfffff);
  __m512i blocks = _mm512_add_epi64(Repeat(first_block), _mm512_set_epi64(7, 6, 5, 4, 3, 2, 1, 0));
  for (uint32_t i = 0; i < block_count; i += 8) {
    const __m512i h = SplitMix8(tensor_key, blocks);
    const __m512i h0 = _mm512_or_si512(h, one);
    const __m512i h1 = _mm512_or_si512(_mm512_rol_epi64(h, 32), one);
    _mm512_store_si512(factors->low[0] + i, _mm512_and_si512(h0, low_bits));
    _mm512_store_si512(factors->low[1] + i, _mm512_and_si512(h1, low_bits));
    _mm512_store_si512(factors->high[0] + i, _mm512_srli_epi64(h0, 20));
    _mm512_store_si512(factors->high[1] + i, _mm512_srli_epi64(h1, 20));
    blocks = _mm512_add_epi64(blocks, Repeat(8));
  }
}

XORBIT_AVX512 inline void AddTo(uint64_t* sums, __m512i low, __m512i high) {
  const __m512i sum = _mm512_add_epi64(low, _mm512_slli_epi64(high, 20));
  _mm512_store_si512(sums, _mm512_add_epi64(_mm512_load_si512(sums), sum));
}

XORBIT_AVX512 void DigestBlocks(uint64_t tensor_key, uint64_t first_block, const uint8_t* bytes, uint64_t block_count,
                                DigestSums* sums) {
  const __m512i low_words = _mm512_set1_epi64(0xffffffff);
  __m512i low[2][2] = {};   // by lane and parity
  __m512i high[2][2] = {};  // likewise
  GroupFactors factors;
  for (uint64_t done = 0; done < block_count; done += kGroupBlocks) {
    const uint64_t rest = block_count - done;
    const uint32_t group_blocks = rest < kGroupBlocks ? static_cast<uint32_t>(rest) : kGroupBlocks;
    ComputeFactors(tensor_key, first_block + done, group_blocks, &factors);
    for (uint32_t i = 0; i < group_blocks; ++i, bytes += kDigestBlockBytes) {
      _mm_prefetch(reinterpret_cast<const char*>(bytes + kDigestPrefetchBytes), _MM_HINT_T0);
      const __m512i words = _mm512_loadu_si512(bytes);
      const __m512i even = _mm512_and_si512(words, low_words);
      const __m512i odd = _mm512_srli_epi64(words, 32);
      for (uint32_t lane = 0; lane < 2; ++lane) {
        const __m512i low_factor = Repeat(factors.low[lane][i]);
        const __m512i high_factor = Repeat(factors.high[lane][i]);
        low[lane][0] = _mm512_madd52lo_epu64(low[lane][0], even, low_factor);
        low[lane][1] = _mm512_madd52lo_epu64(low[lane][1], odd, low_factor);
        high[lane][0] = _mm512_madd52lo_epu64(high[lane][0], even, high_factor);
        high[lane][1] = _mm512_madd52lo_epu64(high[lane][1], odd, high_factor);
      }
    }
  }
  for (uint32_t lane = 0; lane < 2; ++lane) {
    for (uint32_t parity = 0; parity < 2; ++parity) AddTo(sums->sums[lane][parity], low[lane][parity], high[lane][parity]);
  }
}

XORBIT_AVX512 uint64_t Sum(const uint8_t* bytes, uint64_t byte_count) {
  __m512i sums[4] = {};
  uint64_t at = 0;
  for (; byte_count - at >= 256; at += 256) {
    for (uint32_t i = 0; i < 4; ++i) sums[i] = _mm512_add_epi64(sums[i], _mm512_loadu_si512(bytes + at + size_t{i} * 64));
  }
  const __m512i all = _mm512_add_epi64(_mm512_add_epi64(sums[0], sums[1]), _mm512_add_epi64(sums[2], sums[3]));
  return SumOf(all) + kPortableKernels.sum(bytes + at, byte_count - at);
}

}  // namespace

const CpuKernels kAvx512Kernels = {{Diff<uint8_t>, Diff<uint16_t>, Diff<uint32_t>, Diff<uint64_t>}, DigestBlocks, Sum};

}  // namespace xorbit

#endif
