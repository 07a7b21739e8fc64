// Plain C++ with 64-bit words, for any machine. A 64-byte stretch without changes is skipped whole; one with changes is walked
// without branches: every element is stored, and the end of the list moves only if it changed.
#include "backend/cpu/kernels.h"
#include "base/bytes.h"

namespace xorbit {
namespace {

constexpr uint32_t kStretchBytes = 64;

bool Differ(const uint8_t* old_bytes, const uint8_t* new_bytes) {
  uint64_t differences = 0;
  for (uint32_t i = 0; i < kStretchBytes; i += 8) {
    differences |= LoadLe<uint64_t>(old_bytes + i) ^ LoadLe<uint64_t>(new_bytes + i);
  }
  return differences != 0;
}

template <typename T>
uint32_t Diff(const uint8_t* old_bytes, const uint8_t* new_bytes, uint32_t element_count, uint32_t first_position,
              uint32_t old_ahead_bytes, const DiffOutput& output) {
  constexpr uint32_t kStretchElements = kStretchBytes / sizeof(T);
  uint32_t count = 0;
  for (uint32_t i = 0; i < element_count;) {
    const uint32_t rest = element_count - i;
    __builtin_prefetch(old_bytes + size_t{i} * sizeof(T) + old_ahead_bytes);
    if (rest >= kStretchElements && !Differ(old_bytes + size_t{i} * sizeof(T), new_bytes + size_t{i} * sizeof(T))) {
      i += kStretchElements;
      continue;
    }
    for (const uint32_t end = i + (rest < kStretchElements ? rest : kStretchElements); i < end; ++i) {
      const T old_bits = LoadLe<T>(old_bytes + size_t{i} * sizeof(T));
      const T xor_bits = static_cast<T>(old_bits ^ LoadLe<T>(new_bytes + size_t{i} * sizeof(T)));
      output.positions[count] = static_cast<uint16_t>(first_position + i);
      StoreLe<T>(output.xors + size_t{count} * sizeof(T), xor_bits);
      StoreLe<T>(output.olds + size_t{count} * sizeof(T), old_bits);
      count += xor_bits != 0 ? 1 : 0;
    }
  }
  return count;
}

void DigestBlocks(uint64_t tensor_key, uint64_t first_block, const uint8_t* bytes, uint64_t block_count, DigestSums* sums) {
  DigestSums local;
  for (uint64_t block = 0; block < block_count; ++block, bytes += kDigestBlockBytes) {
    const BlockFactors h = BlockFactorsOf(tensor_key, first_block + block);
    for (uint32_t i = 0; i < kDigestWordsPerBlock / 2; ++i) {
      const uint64_t two_words = LoadLe<uint64_t>(bytes + size_t{i} * 8);
      const uint64_t even = two_words & 0xffffffff;
      const uint64_t odd = two_words >> 32;
      local.sums[0][0][i] += h.lane0 * even;
      local.sums[0][1][i] += h.lane0 * odd;
      local.sums[1][0][i] += h.lane1 * even;
      local.sums[1][1][i] += h.lane1 * odd;
    }
  }
  for (uint32_t lane = 0; lane < 2; ++lane) {
    for (uint32_t i = 0; i < kDigestWordsPerBlock; ++i) sums->sums[lane][i / 8][i % 8] += local.sums[lane][i / 8][i % 8];
  }
}

uint64_t Sum(const uint8_t* bytes, uint64_t byte_count) {
  uint64_t sum = 0;
  uint64_t at = 0;
  for (; byte_count - at >= 8; at += 8) sum += LoadLe<uint64_t>(bytes + at);
  uint64_t last = 0;
  std::memcpy(&last, bytes + at, byte_count - at);
  return sum + last;
}

}  // namespace

const CpuKernels kPortableKernels = {{Diff<uint8_t>, Diff<uint16_t>, Diff<uint32_t>, Diff<uint64_t>}, DigestBlocks, Sum};

}  // namespace xorbit
