// The state digest: a linear checksum of live weights, in two lanes (docs/formats/state-digest.md).
//
// D_L = sum over 64-byte blocks of h_L(block) * (sum over its sixteen 32-bit words u_k of g[L][k] * u_k), modulo 2^64. Because
// D is linear in the bytes, an update's digest is the sum over touched elements of new minus old contributions: owners, tiles,
// ranks and steps add up, and nobody has to read what did not change. It catches accidents; against attackers stand SHA-256
// trees and signatures.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>

#include "base/bytes.h"

namespace xorbit {

struct StateDigest {
  uint64_t lane0 = 0;
  uint64_t lane1 = 0;

  StateDigest& operator+=(const StateDigest& other) {
    lane0 += other.lane0;
    lane1 += other.lane1;
    return *this;
  }
  StateDigest& operator-=(const StateDigest& other) {
    lane0 -= other.lane0;
    lane1 -= other.lane1;
    return *this;
  }
  friend StateDigest operator+(StateDigest a, const StateDigest& b) { return a += b; }
  friend StateDigest operator-(StateDigest a, const StateDigest& b) { return a -= b; }
  friend bool operator==(const StateDigest&, const StateDigest&) = default;
};

// Lane 0, then lane 1, each as 16 lower-case hex digits, most significant first.
std::string ToText(const StateDigest& digest);
Result<StateDigest> ParseStateDigest(std::string_view text);

inline constexpr uint32_t kDigestBlockBytes = 64;
inline constexpr uint32_t kDigestWordsPerBlock = 16;

// One step of splitmix64 (Steele, Lea, Flood: "Fast splittable pseudorandom number generators", 2014): adds its increment
// first.
constexpr uint64_t SplitMix64(uint64_t x) {
  x += 0x9e3779b97f4a7c15;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9;
  x = (x ^ (x >> 27)) * 0x94d049bb133111eb;
  return x ^ (x >> 31);
}

// g[L][k] = splitmix64(0x786f72626974 + 16 L + k) | 1.
inline constexpr std::array<std::array<uint64_t, kDigestWordsPerBlock>, 2> kDigestWordFactors = [] {
  std::array<std::array<uint64_t, kDigestWordsPerBlock>, 2> factors{};
  for (uint64_t lane = 0; lane < 2; ++lane) {
    for (uint64_t k = 0; k < kDigestWordsPerBlock; ++k) factors[lane][k] = SplitMix64(0x786f72626974 + 16 * lane + k) | 1;
  }
  return factors;
}();

// First 8 bytes, little-endian, of SHA-256("xorbit-digest-1\0" || name).
uint64_t TensorKeyOf(std::string_view tensor_name);

// h_0 and h_1 of one 64-byte block of a tensor.
struct BlockFactors {
  uint64_t lane0;
  uint64_t lane1;
};
constexpr BlockFactors BlockFactorsOf(uint64_t tensor_key, uint64_t block_index) {
  const uint64_t h = SplitMix64(tensor_key ^ block_index);
  return {h | 1, ((h << 32) | (h >> 32)) | 1};
}

// What one unit of a 32-bit word counts, per lane; word_index counts 32-bit words from the tensor's first byte.
constexpr StateDigest WordWeight(uint64_t tensor_key, uint64_t word_index) {
  const BlockFactors h = BlockFactorsOf(tensor_key, word_index / kDigestWordsPerBlock);
  const uint64_t k = word_index % kDigestWordsPerBlock;
  return {h.lane0 * kDigestWordFactors[0][k], h.lane1 * kDigestWordFactors[1][k]};
}

// Contribution of `bytes` at byte `offset_bytes` of the tensor with this key: any offset, any length. The definition, written
// for reading; backend/cpu has the fast one.
StateDigest DigestOfRange(uint64_t tensor_key, uint64_t offset_bytes, ConstBytes bytes);

// Contribution of one element of `unit_bytes` (1, 2, 4 or 8) with these bits, at element `element_index` of its tensor.
inline StateDigest DigestOfElement(uint64_t tensor_key, uint32_t unit_bytes, uint64_t element_index, uint64_t bits) {
  const uint64_t at = element_index * unit_bytes;
  if (unit_bytes == 8) {
    const StateDigest low = WordWeight(tensor_key, at / 4);
    const StateDigest high = WordWeight(tensor_key, at / 4 + 1);
    const uint64_t low_bits = bits & 0xffffffff;
    const uint64_t high_bits = bits >> 32;
    return {low.lane0 * low_bits + high.lane0 * high_bits, low.lane1 * low_bits + high.lane1 * high_bits};
  }
  const StateDigest weight = WordWeight(tensor_key, at / 4);
  const uint64_t in_place = bits << (8 * (at % 4));
  return {weight.lane0 * in_place, weight.lane1 * in_place};
}

}  // namespace xorbit
