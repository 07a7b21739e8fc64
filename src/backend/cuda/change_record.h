// A change as the sender keeps it in device memory: whole words without padding, so that one access takes all of it and nothing
// is ever read that was not written.
#pragma once

#include <type_traits>

#include "backend/cuda/warp.h"

namespace xorbit::cuda {

template <typename Unit>
struct Change {
  uint32_t position;  // in the segment, modulo 2^32
  Unit old;
  Unit bits;  // old ^ new
};
constexpr uint64_t ChangeBytesOf(uint32_t unit_bytes) { return unit_bytes <= 2 ? 8 : unit_bytes == 4 ? 12 : 24; }

// Units of one and two bytes: position | old << 32 | bits << 48. Longer ones: three words, of four or eight bytes. A loop that
// loads ahead keeps this form, because taking it apart waits for memory.
template <typename Unit>
struct StoredChange {
  using Word = std::conditional_t<sizeof(Unit) == 4, uint32_t, uint64_t>;
  static constexpr uint32_t kWords = sizeof(Unit) <= 2 ? 1 : 3;
  Word words[kWords];

  XORBIT_DEVICE uint32_t position() const { return static_cast<uint32_t>(words[0]); }
  XORBIT_DEVICE Change<Unit> change() const {
    if constexpr (kWords == 1) {
      return {position(), static_cast<Unit>(words[0] >> 32), static_cast<Unit>(words[0] >> 48)};
    } else {
      return {position(), words[1], words[2]};
    }
  }
};
template <typename Unit>
XORBIT_DEVICE StoredChange<Unit> Pack(const Change<Unit>& change) {
  if constexpr (StoredChange<Unit>::kWords == 1) {
    return {{uint64_t{change.position} | uint64_t{change.old} << 32 | uint64_t{change.bits} << 48}};
  } else {
    return {{change.position, change.old, change.bits}};
  }
}

template <typename Unit>
XORBIT_DEVICE StoredChange<Unit> LoadChange(const uint8_t* store, uint64_t index) {
  return reinterpret_cast<const StoredChange<Unit>*>(store)[index];
}
template <typename Unit>
XORBIT_DEVICE void StoreChange(uint8_t* store, uint64_t index, const StoredChange<Unit>& change) {
  reinterpret_cast<StoredChange<Unit>*>(store)[index] = change;
}

}  // namespace xorbit::cuda
