// Bits of live memory by their address in bits: granules smaller than an element, down to the halves of a byte.
//
// Whole bytes have one writer, but the two halves of one may belong to records that different threads apply, so halves change
// by atomic operations.
#pragma once

#include <atomic>
#include <cstdint>
#include <cstring>

#include "base/bytes.h"

namespace xorbit {

// bits < 64.
constexpr uint64_t LowBits(uint32_t bits) { return (uint64_t{1} << bits) - 1; }

inline constexpr uint32_t kNibbleBits = 4;

// 4, 8, 16 or 32 bits that start at bit `at` of `bytes`: halves of bytes at multiples of 4, low half first, others at whole
// bytes.
inline uint64_t LoadGranule(MutableBytes bytes, uint64_t at, uint32_t bits) {
  uint8_t* byte = bytes.data() + at / 8;
  if (bits == kNibbleBits) return std::atomic_ref(*byte).load(std::memory_order_relaxed) >> (at % 8) & LowBits(kNibbleBits);
  uint64_t value = 0;
  std::memcpy(&value, byte, bits / 8);
  return value;
}

// XORs the granule and returns what it was.
inline uint64_t XorGranule(MutableBytes bytes, uint64_t at, uint32_t bits, uint64_t xor_bits) {
  uint8_t* byte = bytes.data() + at / 8;
  if (bits == kNibbleBits) {
    const auto in_place = static_cast<uint8_t>(xor_bits << (at % 8));
    const uint8_t old = std::atomic_ref(*byte).fetch_xor(in_place, std::memory_order_relaxed);
    return uint64_t{old} >> (at % 8) & LowBits(kNibbleBits);
  }
  uint64_t value = 0;
  std::memcpy(&value, byte, bits / 8);
  const uint64_t changed = value ^ xor_bits;
  std::memcpy(byte, &changed, bits / 8);
  return value;
}

}  // namespace xorbit
