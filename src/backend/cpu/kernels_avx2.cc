// AVX2. Diff: 64 elements become a 64-bit mask of changed ones by compares, and its set bits are walked by TZCNT.
//
// Digest: AVX2 multiplies 32 x 32 -> 64 bits only, and a factor h has 64. With h = 2^32 hi + lo the lanes are
//   h_0 = 2^32 hi + (lo | 1)     h_1 = 2^32 lo + (hi | 1)
// so h_0 u = (lo | 1) u + 2^32 hi u, of which the second product matters only modulo 2^32. That one is lane 1's first product
// less u where hi is even, and the other way round: two multiplications a word for both lanes instead of four, and two masked
// additions that handle even and odd words together.
#if defined(__x86_64__)

#include <immintrin.h>

#include "backend/cpu/kernels.h"
#include "base/bytes.h"

#define XORBIT_AVX2 __attribute__((target("avx2,bmi,bmi2,lzcnt,popcnt")))

namespace xorbit {
namespace {

XORBIT_AVX2 inline __m256i Load(const uint8_t* bytes) { return _mm256_loadu_si256(reinterpret_cast<const __m256i*>(bytes)); }

// One bit per element of 32 bytes, set where they are equal.
template <typename T>
XORBIT_AVX2 inline uint64_t EqualBits(const uint8_t* old_bytes, const uint8_t* new_bytes) {
  const __m256i old_vector = Load(old_bytes);
  const __m256i new_vector = Load(new_bytes);
  if constexpr (sizeof(T) == 1) {
    return static_cast<uint32_t>(_mm256_movemask_epi8(_mm256_cmpeq_epi8(old_vector, new_vector)));
  } else if constexpr (sizeof(T) == 4) {
    return static_cast<uint32_t>(_mm256_movemask_ps(_mm256_castsi256_ps(_mm256_cmpeq_epi32(old_vector, new_vector))));
  } else {
    return static_cast<uint32_t>(_mm256_movemask_pd(_mm256_castsi256_pd(_mm256_cmpeq_epi64(old_vector, new_vector))));
  }
}

// There is no movemask for 16-bit elements: two vectors of compares are packed into one of bytes, whose halves come out
// crossed.
template <>
XORBIT_AVX2 inline uint64_t EqualBits<uint16_t>(const uint8_t* old_bytes, const uint8_t* new_bytes) {
  const __m256i low = _mm256_cmpeq_epi16(Load(old_bytes), Load(new_bytes));
  const __m256i high = _mm256_cmpeq_epi16(Load(old_bytes + 32), Load(new_bytes + 32));
  return static_cast<uint32_t>(_mm256_movemask_epi8(_mm256_permute4x64_epi64(_mm256_packs_epi16(low, high), 0xd8)));
}

template <typename T>
XORBIT_AVX2 inline uint64_t ChangedBits(const uint8_t* old_bytes, const uint8_t* new_bytes) {
  constexpr uint32_t kStepBytes = sizeof(T) == 2 ? 64 : 32;
  uint64_t equal = 0;
  for (uint32_t at = 0; at < 64 * sizeof(T); at += kStepBytes) {
    equal |= EqualBits<T>(old_bytes + at, new_bytes + at) << (at / sizeof(T));
  }
  return ~equal;
}

template <typename T>
XORBIT_AVX2 inline void Append(const uint8_t* old_bytes, const uint8_t* new_bytes, uint32_t index, uint32_t position,
                               const DiffOutput& output, uint32_t count) {
  const T old_bits = LoadLe<T>(old_bytes + size_t{index} * sizeof(T));
  output.positions[count] = static_cast<uint16_t>(position);
  StoreLe<T>(output.xors + size_t{count} * sizeof(T),
             static_cast<T>(old_bits ^ LoadLe<T>(new_bytes + size_t{index} * sizeof(T))));
  StoreLe<T>(output.olds + size_t{count} * sizeof(T), old_bits);
}

template <typename T>
XORBIT_AVX2 uint32_t Diff(const uint8_t* old_bytes, const uint8_t* new_bytes, uint32_t element_count, uint32_t first_position,
                          uint32_t old_ahead_bytes, const DiffOutput& output) {
  uint32_t count = 0;
  uint32_t i = 0;
  for (; element_count - i >= 64; i += 64) {
    for (uint32_t at = 0; at < 64 * sizeof(T); at += 64) {
      __builtin_prefetch(old_bytes + size_t{i} * sizeof(T) + at + old_ahead_bytes);
    }
    uint64_t changed = ChangedBits<T>(old_bytes + size_t{i} * sizeof(T), new_bytes + size_t{i} * sizeof(T));
    for (; changed != 0; changed &= changed - 1, ++count) {
      const uint32_t index = i + static_cast<uint32_t>(_tzcnt_u64(changed));
      Append<T>(old_bytes, new_bytes, index, first_position + index, output, count);
    }
  }
  for (; i < element_count; ++i) {
    Append<T>(old_bytes, new_bytes, i, first_position + i, output, count);
    count += LoadLe<T>(output.xors + size_t{count} * sizeof(T)) != 0 ? 1 : 0;
  }
  return count;
}

// Factors of a group of blocks, each as vectors of one repeated value.
constexpr uint32_t kGroupBlocks = 32;
struct GroupFactors {
  uint32_t low_odd[kGroupBlocks];    // lo | 1
  uint32_t high_odd[kGroupBlocks];   // hi | 1
  uint32_t low_even[kGroupBlocks];   // all ones where lo is even, else 0
  uint32_t high_even[kGroupBlocks];  // likewise for hi
};

XORBIT_AVX2 inline void ComputeFactors(uint64_t tensor_key, uint64_t first_block, uint32_t block_count, GroupFactors* factors) {
  for (uint32_t i = 0; i < block_count; ++i) {
    const uint64_t h = SplitMix64(tensor_key ^ (first_block + i));
    const auto low = static_cast<uint32_t>(h);
    const auto high = static_cast<uint32_t>(h >> 32);
    factors->low_odd[i] = low | 1;
    factors->high_odd[i] = high | 1;
    factors->low_even[i] = (low & 1) - 1;
    factors->high_even[i] = (high & 1) - 1;
  }
}

XORBIT_AVX2 inline __m256i Repeat(uint32_t value) { return _mm256_set1_epi32(static_cast<int>(value)); }

XORBIT_AVX2 inline void AddTo(uint64_t* sums, __m256i value) {
  auto* target = reinterpret_cast<__m256i*>(sums);
  _mm256_storeu_si256(target, _mm256_add_epi64(_mm256_loadu_si256(target), value));
}

// Adds one half (32 bytes) of each block of a group; both halves at once would need more accumulators than there are registers.
XORBIT_AVX2 inline void DigestHalves(const GroupFactors& factors, const uint8_t* bytes, uint32_t block_count, uint32_t half,
                                     DigestSums* sums) {
  __m256i low_even = _mm256_setzero_si256();  // (lo | 1) * even words
  __m256i low_odd = _mm256_setzero_si256();   // (lo | 1) * odd words
  __m256i high_even = _mm256_setzero_si256();
  __m256i high_odd = _mm256_setzero_si256();
  __m256i low_excess = _mm256_setzero_si256();  // 32-bit sums of the words whose lo is even
  __m256i high_excess = _mm256_setzero_si256();
  for (uint32_t i = 0; i < block_count; ++i) {
    const uint8_t* block = bytes + size_t{i} * kDigestBlockBytes;
    if (half == 0) _mm_prefetch(reinterpret_cast<const char*>(block + kDigestPrefetchBytes), _MM_HINT_T0);
    const __m256i words = Load(block + size_t{half} * 32);
    const __m256i odd_words = _mm256_srli_epi64(words, 32);
    const __m256i low = Repeat(factors.low_odd[i]);
    const __m256i high = Repeat(factors.high_odd[i]);
    low_even = _mm256_add_epi64(low_even, _mm256_mul_epu32(words, low));
    low_odd = _mm256_add_epi64(low_odd, _mm256_mul_epu32(odd_words, low));
    high_even = _mm256_add_epi64(high_even, _mm256_mul_epu32(words, high));
    high_odd = _mm256_add_epi64(high_odd, _mm256_mul_epu32(odd_words, high));
    low_excess = _mm256_add_epi32(low_excess, _mm256_and_si256(words, Repeat(factors.low_even[i])));
    high_excess = _mm256_add_epi32(high_excess, _mm256_and_si256(words, Repeat(factors.high_even[i])));
  }
  const uint32_t at = half * 4;
  const __m256i low_excess_odd = _mm256_srli_epi64(low_excess, 32);
  const __m256i high_excess_odd = _mm256_srli_epi64(high_excess, 32);
  AddTo(sums->sums[0][0] + at, _mm256_add_epi64(low_even, _mm256_slli_epi64(_mm256_sub_epi64(high_even, high_excess), 32)));
  AddTo(sums->sums[0][1] + at, _mm256_add_epi64(low_odd, _mm256_slli_epi64(_mm256_sub_epi64(high_odd, high_excess_odd), 32)));
  AddTo(sums->sums[1][0] + at, _mm256_add_epi64(high_even, _mm256_slli_epi64(_mm256_sub_epi64(low_even, low_excess), 32)));
  AddTo(sums->sums[1][1] + at, _mm256_add_epi64(high_odd, _mm256_slli_epi64(_mm256_sub_epi64(low_odd, low_excess_odd), 32)));
}

XORBIT_AVX2 void DigestBlocks(uint64_t tensor_key, uint64_t first_block, const uint8_t* bytes, uint64_t block_count,
                              DigestSums* sums) {
  GroupFactors factors;
  for (uint64_t done = 0; done < block_count; done += kGroupBlocks) {
    const uint64_t rest = block_count - done;
    const uint32_t group_blocks = rest < kGroupBlocks ? static_cast<uint32_t>(rest) : kGroupBlocks;
    const uint8_t* group = bytes + done * kDigestBlockBytes;
    ComputeFactors(tensor_key, first_block + done, group_blocks, &factors);
    DigestHalves(factors, group, group_blocks, 0, sums);
    DigestHalves(factors, group, group_blocks, 1, sums);
  }
}

XORBIT_AVX2 uint64_t Sum(const uint8_t* bytes, uint64_t byte_count) {
  __m256i sums[4] = {};
  uint64_t at = 0;
  for (; byte_count - at >= 128; at += 128) {
    for (uint32_t i = 0; i < 4; ++i) sums[i] = _mm256_add_epi64(sums[i], Load(bytes + at + size_t{i} * 32));
  }
  const __m256i all = _mm256_add_epi64(_mm256_add_epi64(sums[0], sums[1]), _mm256_add_epi64(sums[2], sums[3]));
  alignas(32) uint64_t lanes[4];
  _mm256_store_si256(reinterpret_cast<__m256i*>(lanes), all);
  return lanes[0] + lanes[1] + lanes[2] + lanes[3] + kPortableKernels.sum(bytes + at, byte_count - at);
}

}  // namespace

const CpuKernels kAvx2Kernels = {{Diff<uint8_t>, Diff<uint16_t>, Diff<uint32_t>, Diff<uint64_t>}, DigestBlocks, Sum};

}  // namespace xorbit

#endif
