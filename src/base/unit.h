// Units, the elements of 1, 2, 4 or 8 bytes that deltas count in: from their number of bytes, known at run time only, to a type
// that an inner loop is compiled for.
#pragma once

#include <cassert>
#include <cstdint>
#include <cstring>

#include "base/bytes.h"

namespace xorbit {

// body.operator()<Unit>() with the unsigned integer of unit_bytes bytes, and what it returns. unit_bytes is 1, 2, 4 or 8.
template <typename Body>
decltype(auto) WithUnit(uint32_t unit_bytes, Body&& body) {
  switch (unit_bytes) {
    case 1:
      return body.template operator()<uint8_t>();
    case 2:
      return body.template operator()<uint16_t>();
    case 4:
      return body.template operator()<uint32_t>();
    default:
      assert(unit_bytes == 8);
      return body.template operator()<uint64_t>();
  }
}

// XORs the unit at `mask` into the one at `at`. Any alignment.
template <typename Unit>
void XorUnit(uint8_t* at, const uint8_t* mask) {
  StoreLe<Unit>(at, static_cast<Unit>(LoadLe<Unit>(at) ^ LoadLe<Unit>(mask)));
}

// The little-endian bytes of one unit as a number. For inner loops WithUnit and LoadLe are faster.
inline uint64_t UnitBits(const uint8_t* bytes, uint32_t unit_bytes) {
  uint64_t bits = 0;
  std::memcpy(&bits, bytes, unit_bytes);
  return bits;
}

}  // namespace xorbit
