// AArch64 Advanced SIMD. Diff: 64 bytes a step; in a changed one each 16-byte vector becomes a mask of 4 bits a byte (a
// narrowing shift, in place of the movemask that NEON lacks), whose set groups are walked.
//
// Digest: UMLAL multiplies 32 x 32 bits and adds to 64, so (lo half of h) * u is one instruction for two words; of
// (hi half of h) * u only 32 bits matter, so MLA does it for four words at once.
#if defined(__aarch64__)

#include <arm_neon.h>

#include "backend/cpu/kernels.h"
#include "base/bytes.h"

namespace xorbit {
namespace {

// 4 bits a byte, set in all bytes of every element that differs.
template <typename T>
uint64_t ChangedNibbles(uint8x16_t old_vector, uint8x16_t new_vector) {
  uint8x16_t equal;
  if constexpr (sizeof(T) == 1) {
    equal = vceqq_u8(old_vector, new_vector);
  } else if constexpr (sizeof(T) == 2) {
    equal = vreinterpretq_u8_u16(vceqq_u16(vreinterpretq_u16_u8(old_vector), vreinterpretq_u16_u8(new_vector)));
  } else if constexpr (sizeof(T) == 4) {
    equal = vreinterpretq_u8_u32(vceqq_u32(vreinterpretq_u32_u8(old_vector), vreinterpretq_u32_u8(new_vector)));
  } else {
    equal = vreinterpretq_u8_u64(vceqq_u64(vreinterpretq_u64_u8(old_vector), vreinterpretq_u64_u8(new_vector)));
  }
  return ~vget_lane_u64(vreinterpret_u64_u8(vshrn_n_u16(vreinterpretq_u16_u8(equal), 4)), 0);
}

bool Differ(const uint8x16x4_t& old_vectors, const uint8x16x4_t& new_vectors) {
  const uint8x16_t low =
      vorrq_u8(veorq_u8(old_vectors.val[0], new_vectors.val[0]), veorq_u8(old_vectors.val[1], new_vectors.val[1]));
  const uint8x16_t high =
      vorrq_u8(veorq_u8(old_vectors.val[2], new_vectors.val[2]), veorq_u8(old_vectors.val[3], new_vectors.val[3]));
  return vmaxvq_u32(vreinterpretq_u32_u8(vorrq_u8(low, high))) != 0;
}

template <typename T>
uint32_t Diff(const uint8_t* old_bytes, const uint8_t* new_bytes, uint32_t element_count, uint32_t first_position,
              uint32_t old_ahead_bytes, const DiffOutput& output) {
  constexpr uint64_t kElementNibbles = sizeof(T) == 8 ? 0xffffffff : (uint64_t{1} << (4 * sizeof(T))) - 1;
  constexpr uint32_t kStepElements = 64 / sizeof(T);
  uint32_t count = 0;
  uint32_t i = 0;
  for (; element_count - i >= kStepElements; i += kStepElements) {
    const uint8_t* old_step = old_bytes + size_t{i} * sizeof(T);
    const uint8_t* new_step = new_bytes + size_t{i} * sizeof(T);
    __builtin_prefetch(old_step + old_ahead_bytes);
    const uint8x16x4_t old_vectors = vld1q_u8_x4(old_step);
    const uint8x16x4_t new_vectors = vld1q_u8_x4(new_step);
    if (!Differ(old_vectors, new_vectors)) continue;
    for (uint32_t vector = 0; vector < 4; ++vector) {
      uint64_t changed = ChangedNibbles<T>(old_vectors.val[vector], new_vectors.val[vector]);
      while (changed != 0) {
        const auto bit = static_cast<uint32_t>(__builtin_ctzll(changed));
        changed &= ~(kElementNibbles << bit);
        const uint32_t byte = vector * 16 + bit / 4;
        const T old_bits = LoadLe<T>(old_step + byte);
        output.positions[count] = static_cast<uint16_t>(first_position + i + byte / sizeof(T));
        StoreLe<T>(output.xors + size_t{count} * sizeof(T), static_cast<T>(old_bits ^ LoadLe<T>(new_step + byte)));
        StoreLe<T>(output.olds + size_t{count} * sizeof(T), old_bits);
        ++count;
      }
    }
  }
  const DiffOutput rest = {output.positions + count, output.xors + size_t{count} * sizeof(T),
                           output.olds + size_t{count} * sizeof(T)};
  constexpr uint32_t kLog2 = sizeof(T) == 1 ? 0 : sizeof(T) == 2 ? 1 : sizeof(T) == 4 ? 2 : 3;
  return count + kPortableKernels.diff[kLog2](old_bytes + size_t{i} * sizeof(T), new_bytes + size_t{i} * sizeof(T),
                                              element_count - i, first_position + i, old_ahead_bytes, rest);
}

// Sums of one lane over four consecutive words of every block.
struct LaneSums {
  uint64x2_t low01 = vdupq_n_u64(0);  // (low half of h) * words 0 and 1
  uint64x2_t low23 = vdupq_n_u64(0);
  uint32x4_t high = vdupq_n_u32(0);  // (high half of h) * words 0 to 3, modulo 2^32

  void Add(uint32x4_t words, uint64_t h) {
    low01 = vmlal_n_u32(low01, vget_low_u32(words), static_cast<uint32_t>(h));
    low23 = vmlal_high_n_u32(low23, words, static_cast<uint32_t>(h));
    high = vmlaq_n_u32(high, words, static_cast<uint32_t>(h >> 32));
  }
  // `first_pair` is the index of the first word's 64-bit word in its block.
  void AddTo(uint64_t (&sums)[2][8], uint32_t first_pair) const {
    const uint64x2_t all01 = vaddq_u64(low01, vshll_n_u32(vget_low_u32(high), 31));
    const uint64x2_t all23 = vaddq_u64(low23, vshll_n_u32(vget_high_u32(high), 31));
    // A widening shift reaches 31 only, so the high products are added twice.
    const uint64x2_t sum01 = vaddq_u64(all01, vshll_n_u32(vget_low_u32(high), 31));
    const uint64x2_t sum23 = vaddq_u64(all23, vshll_n_u32(vget_high_u32(high), 31));
    sums[0][first_pair] += vgetq_lane_u64(sum01, 0);
    sums[1][first_pair] += vgetq_lane_u64(sum01, 1);
    sums[0][first_pair + 1] += vgetq_lane_u64(sum23, 0);
    sums[1][first_pair + 1] += vgetq_lane_u64(sum23, 1);
  }
};

void DigestBlocks(uint64_t tensor_key, uint64_t first_block, const uint8_t* bytes, uint64_t block_count, DigestSums* sums) {
  LaneSums lanes[2][4];  // by lane and quarter of a block: 24 of the 32 vector registers
  for (uint64_t block = 0; block < block_count; ++block, bytes += kDigestBlockBytes) {
    const BlockFactors h = BlockFactorsOf(tensor_key, first_block + block);
    for (uint32_t quarter = 0; quarter < 4; ++quarter) {
      const uint32x4_t words = vreinterpretq_u32_u8(vld1q_u8(bytes + size_t{quarter} * 16));
      lanes[0][quarter].Add(words, h.lane0);
      lanes[1][quarter].Add(words, h.lane1);
    }
  }
  for (uint32_t quarter = 0; quarter < 4; ++quarter) {
    lanes[0][quarter].AddTo(sums->sums[0], quarter * 2);
    lanes[1][quarter].AddTo(sums->sums[1], quarter * 2);
  }
}

uint64_t Sum(const uint8_t* bytes, uint64_t byte_count) {
  uint64x2_t sums[4] = {vdupq_n_u64(0), vdupq_n_u64(0), vdupq_n_u64(0), vdupq_n_u64(0)};
  uint64_t at = 0;
  for (; byte_count - at >= 64; at += 64) {
    for (uint32_t i = 0; i < 4; ++i) sums[i] = vaddq_u64(sums[i], vreinterpretq_u64_u8(vld1q_u8(bytes + at + size_t{i} * 16)));
  }
  const uint64x2_t all = vaddq_u64(vaddq_u64(sums[0], sums[1]), vaddq_u64(sums[2], sums[3]));
  return vaddvq_u64(all) + kPortableKernels.sum(bytes + at, byte_count - at);
}

}  // namespace

const CpuKernels kNeonKernels = {{Diff<uint8_t>, Diff<uint16_t>, Diff<uint32_t>, Diff<uint64_t>}, DigestBlocks, Sum};

}  // namespace xorbit

#endif
