// Arithmetic on sizes that came from outside. Sizes and offsets are 64-bit everywhere; overflow is an answer, not undefined.
#pragma once

#include <cstdint>
#include <optional>

namespace xorbit {

inline std::optional<uint64_t> CheckedAdd(uint64_t a, uint64_t b) {
  uint64_t sum = 0;
  if (__builtin_add_overflow(a, b, &sum)) return std::nullopt;
  return sum;
}

inline std::optional<uint64_t> CheckedMul(uint64_t a, uint64_t b) {
  uint64_t product = 0;
  if (__builtin_mul_overflow(a, b, &product)) return std::nullopt;
  return product;
}

constexpr uint64_t DivideRoundUp(uint64_t a, uint64_t b) { return a / b + (a % b != 0 ? 1 : 0); }

// The next multiple of 8: sections of formats start there, so that their records can be read in place.
constexpr uint64_t PaddedTo8(uint64_t byte_count) { return DivideRoundUp(byte_count, 8) * 8; }

}  // namespace xorbit
