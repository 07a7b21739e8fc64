// The inner loops of the sparse codec and the seam at which backends replace them: rANS over groups of 32 lanes, both ways, and
// what an encoder does to all changes before.
//
// A *row* is one symbol of every change of a group: the gap row, then one row a value plane that is not raw. A kernel only ever
// does whole groups that cannot leave the tile whatever its bytes say; the careful portable loop does the first group (whose
// first change has no gap), whatever a kernel leaves, and all reporting. So all kernels accept and reject exactly the same
// bytes.
#pragma once

#include <array>
#include <cstdint>

#include "codec/change_digest.h"
#include "codec/sparse_gaps.h"
#include "codec/sparse_table.h"

namespace xorbit {

// What a tile's symbol loop reads, and how far it has come. Sizes are per tile, hence 32 bits.
struct TileDecode {
  uint32_t unit_bytes = 0;
  uint32_t count = 0;                                    // changes, or elements of a dense tile
  uint32_t span = 0;                                     // offsets may not exceed it
  const DecodeTable* gaps = nullptr;                     // null in a dense tile: then there are no offsets either
  std::array<const DecodeTable*, kMaxPlanes> planes{};   // null for a raw plane
  std::array<const uint8_t*, kMaxPlanes> plane_bytes{};  // raw planes: `count` bytes
  // Words grow from the front of the region, raw gap bits from its back: bit i is bit i % 32 of the 32-bit word that ends 4 *
  // (i / 32) bytes before region_end. The four bytes before region_begin are readable.
  const uint8_t* region_begin = nullptr;
  const uint8_t* region_end = nullptr;

  alignas(64) std::array<uint32_t, kLanes> states{};
  uint32_t next = 0;        // first change of the next group
  uint64_t words_used = 0;  // 16-bit words
  uint64_t bits_used = 0;   // raw gap bits
  uint32_t offset = 0;      // of the last change decoded, from the tile's first

  uint64_t region_bytes() const { return static_cast<uint64_t>(region_end - region_begin); }
  // How many more whole groups are left that cannot read outside the region even if each symbol takes a word and each gap all
  // its raw bits. A vector load of words may run 32 bytes on, one of raw bits may be 128 bytes long.
  uint32_t SafeGroupCount() const;
};

// Decodes whole groups as long as SafeGroupCount() allows, from any group but the first, and advances `tile`. It may stop
// earlier. offsets[i] and xors[i * unit_bytes] belong to change i; both have room for kDecodeSlack changes more. False if an
// offset would exceed the span; then the contents of the outputs are unspecified.
using DecodeGroups = bool (*)(TileDecode* tile, uint32_t* offsets, uint8_t* xors);
inline constexpr uint32_t kDecodeSlack = 64;

inline constexpr uint32_t kMaxRows = 1 + kMaxPlanes;

struct TileEncode {
  uint32_t group_count = 0;  // whole groups, to be coded from the last to the first
  uint32_t row_count = 0;
  std::array<const uint8_t*, kMaxRows> symbols{};  // in coding order; symbols[row][change]
  std::array<const EncodeTable*, kMaxRows> tables{};
  alignas(64) std::array<uint32_t, kLanes> states{};
  uint16_t* words = nullptr;  // the next word is written just below; there is room for all
};
using EncodeGroups = void (*)(TileEncode* tile);

// Symbols of the gaps between ascending positions of a window: symbols[i] is that of the gap before position i, symbols[0] is
// unspecified. Both have room for kWindowElements and 16 spare entries, which may be read and scribbled on.
using WindowGaps = void (*)(const uint16_t* positions, uint32_t count, uint8_t* symbols);

// planes[p][i] = byte p of the unit_bytes bytes of value i.
using SplitPlanes = void (*)(const uint8_t* values, uint32_t unit_bytes, uint32_t count, uint8_t* const* planes);

struct SparseKernels {
  DecodeGroups decode_groups;
  EncodeGroups encode_groups;
  MakeGaps make_gaps;
  WindowGaps window_gaps;
  SplitPlanes split_planes;
  WeighStretch weigh_stretch;
};
const SparseKernels& PortableSparseKernels();

// Decodes up to `group_count` groups, the last of which may be partial, checking every read. False if the words or raw bits run
// out or an offset would exceed the span.
bool DecodeGroupsCarefully(TileDecode* tile, uint32_t group_count, uint32_t* offsets, uint8_t* xors);
// Turns the gap symbols of a whole group, not the first, that SafeGroupCount() allows into its offsets, and consumes their raw
// bits. For kernels without a faster way. False if an offset would exceed the span.
bool GapsOfSafeGroup(TileDecode* tile, const uint8_t* symbols, uint32_t* offsets);

// Codes one symbol into lane state x; a word that falls out goes below *words.
inline void EncodeSymbol(const EncodeTable& table, uint8_t symbol, uint32_t* state, uint16_t** words) {
  const uint32_t packed = table.packed[symbol];
  const uint64_t frequency = packed & 0xffff;
  uint64_t x = *state;
  const bool emit = x >= frequency << (32 - kFrequencyBits);
  (*words)[-1] = static_cast<uint16_t>(x);
  *words -= emit ? 1 : 0;
  x = emit ? x >> 16 : x;
  const uint64_t quotient = x * table.inverse[symbol] >> kInverseShift;
  *state = static_cast<uint32_t>(x + quotient * (kFrequencySum - frequency) + (packed >> 16));
}

}  // namespace xorbit
