// One element of live memory: read, XORed or stored, at any alignment, beside elements that other warps are changing.
//
// XOR is atomic on aligned 32-bit words, so neighbours in one word need no agreement: an element takes one word, a 4-byte one
// off its alignment two, an 8-byte one up to three. A word that reaches out of the region is not ours to touch as a word: its
// elements go by bytes, each of which belongs to one element alone.
#pragma once

#include <type_traits>

#include "backend/cuda/update_on_device.h"
#include "backend/cuda/warp.h"

namespace xorbit::cuda {

// Words that an element of this size at this address touches.
template <typename Unit>
XORBIT_DEVICE uint32_t WordCountAt(uint64_t address) {
  if constexpr (sizeof(Unit) == 1) return 1;
  return static_cast<uint32_t>((address % 4 + sizeof(Unit) + 3) / 4);
}

// Whether all those words lie in the region.
template <typename Unit>
XORBIT_DEVICE bool WordsInside(uint64_t address, const RegionBounds& region) {
  const uint64_t begin = address / 4 * 4;
  return begin >= region.begin && begin + 4 * WordCountAt<Unit>(address) <= region.end;
}

template <typename Unit>
XORBIT_DEVICE Unit LoadByBytes(uint64_t address) {
  const auto* bytes = reinterpret_cast<const uint8_t*>(address);
  Unit value = 0;
  for (uint32_t i = 0; i < sizeof(Unit); ++i) {
    value = static_cast<Unit>(value | static_cast<Unit>(static_cast<Unit>(LoadLive(bytes + i)) << (8 * i)));
  }
  return value;
}

template <typename Unit>
XORBIT_DEVICE Unit LoadElement(uint64_t address) {
  if (address % sizeof(Unit) == 0) return LoadLive(reinterpret_cast<const Unit*>(address));
  return LoadByBytes<Unit>(address);
}

template <typename Unit>
XORBIT_DEVICE void StoreElement(uint64_t address, Unit value) {
  if (address % sizeof(Unit) == 0) {
    *reinterpret_cast<Unit*>(address) = value;
    return;
  }
  auto* bytes = reinterpret_cast<uint8_t*>(address);
  for (uint32_t i = 0; i < sizeof(Unit); ++i) bytes[i] = static_cast<uint8_t>(value >> (8 * i));
}

// XORs an element whose words lie in its region. Returns its old value if kReturn, else 0: then the memory system need not
// answer.
template <typename Unit, bool kReturn>
XORBIT_DEVICE Unit XorElement(uint64_t address, Unit bits) {
  auto* word = reinterpret_cast<uint32_t*>(address / 4 * 4);
  const auto shift = static_cast<uint32_t>(address % 4 * 8);
  if (sizeof(Unit) == 1 || WordCountAt<Unit>(address) == 1) {
    const uint32_t old = AtomicXor(word, static_cast<uint32_t>(bits) << shift);
    return kReturn ? static_cast<Unit>(old >> shift) : Unit{0};
  }
  uint64_t old_bits = 0;
  for (uint32_t i = 0; i < WordCountAt<Unit>(address); ++i) {
    // Bits of the element that fall into word i.
    const uint32_t done = i == 0 ? 0 : 32 * i - shift;
    const auto part = static_cast<uint32_t>(i == 0 ? uint64_t{bits} << shift : uint64_t{bits} >> done);
    if (!kReturn && part == 0) continue;
    const uint32_t old = AtomicXor(word + i, part);
    old_bits |= i == 0 ? old >> shift : uint64_t{old} << done;
  }
  return kReturn ? static_cast<Unit>(old_bits) : Unit{0};
}

// The same for an element at a multiple of its size, all of whose words lie in its region. What comes back of a smaller element
// is its word, to be shifted by XorShiftOf once it is needed: so nobody waits for it here.
template <typename Unit>
using XorWord = std::conditional_t<sizeof(Unit) == 8, uint64_t, uint32_t>;
template <typename Unit>
XORBIT_DEVICE uint32_t XorShiftOf(uint64_t address) {
  return sizeof(Unit) < 4 ? static_cast<uint32_t>(address % 4 * 8) : 0;
}
template <typename Unit, bool kReturn>
XORBIT_DEVICE XorWord<Unit> XorAligned(uint64_t address, Unit bits) {
  if constexpr (sizeof(Unit) == 8) {
    return XorElement<Unit, kReturn>(address, bits);
  } else {
    return AtomicXor(reinterpret_cast<uint32_t*>(address / 4 * 4), uint32_t{bits} << XorShiftOf<Unit>(address));
  }
}

// The same for any element of the region; returns the old value.
template <typename Unit>
XORBIT_DEVICE_RARE Unit XorRaggedElement(uint64_t address, Unit bits, RegionBounds region) {
  if (WordsInside<Unit>(address, region)) return XorElement<Unit, true>(address, bits);
  auto* bytes = reinterpret_cast<uint8_t*>(address);
  Unit old = 0;
  for (uint32_t i = 0; i < sizeof(Unit); ++i) {
    const uint8_t byte = LoadLive(bytes + i);
    old = static_cast<Unit>(old | static_cast<Unit>(static_cast<Unit>(byte) << (8 * i)));
    bytes[i] = static_cast<uint8_t>(byte ^ static_cast<uint8_t>(bits >> (8 * i)));
  }
  return old;
}

// A part of an element that lies elsewhere than the rest: `bits` = 4, 8, 16 or 32 of them, granule `live` of a region.
struct Granule {
  uint64_t live;
  uint32_t bits;
  RegionBounds region;

  XORBIT_DEVICE uint64_t address() const { return region.begin + live * bits / 8; }
  XORBIT_DEVICE uint32_t half_shift() const { return static_cast<uint32_t>(live % 2 * 4); }
};

XORBIT_DEVICE_RARE uint32_t LoadGranule(Granule granule) {
  if (granule.bits == 4) return LoadLive(reinterpret_cast<const uint8_t*>(granule.address())) >> granule.half_shift() & 15;
  if (granule.bits == 8) return LoadElement<uint8_t>(granule.address());
  if (granule.bits == 16) return LoadElement<uint16_t>(granule.address());
  return LoadElement<uint32_t>(granule.address());
}

// Returns the old bits. Half bytes lie in regions of whole words (UpdatePlan sees to it), since two of them share a byte.
XORBIT_DEVICE_RARE uint32_t XorGranule(Granule granule, uint32_t bits) {
  const uint64_t address = granule.address();
  if (granule.bits == 4) {
    const uint32_t shift = static_cast<uint32_t>(address % 4 * 8) + granule.half_shift();
    return AtomicXor(reinterpret_cast<uint32_t*>(address / 4 * 4), bits << shift) >> shift & 15;
  }
  if (granule.bits == 8) return XorRaggedElement<uint8_t>(address, static_cast<uint8_t>(bits), granule.region);
  if (granule.bits == 16) return XorRaggedElement<uint16_t>(address, static_cast<uint16_t>(bits), granule.region);
  return XorRaggedElement<uint32_t>(address, bits, granule.region);
}

}  // namespace xorbit::cuda
