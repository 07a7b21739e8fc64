// The casts of shadow bindings, bit by bit as engines do them.
#pragma once

#include <cstdint>

#include "tensor/live_map.h"

namespace xorbit {

// Round to nearest, ties to even; a NaN stays one.
constexpr uint64_t RoundF32ToBf16(uint64_t bits) {
  constexpr uint64_t kInfinity = 0x7f800000;
  if ((bits & 0x7fffffff) > kInfinity) return bits >> 16 | 0x40;
  return (bits + 0x7fff + (bits >> 16 & 1)) >> 16;
}

// The result's bits of a canonical element's.
constexpr uint64_t CastBits(Cast cast, uint64_t bits) {
  switch (cast) {
    case Cast::kBf16ToF32:
      return bits << 16;
    case Cast::kF32ToBf16:
      return RoundF32ToBf16(bits);
    case Cast::kCopy:
      break;
  }
  return bits;
}

}  // namespace xorbit
