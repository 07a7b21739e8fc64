// The sparse codec's records and numbers, in the words of docs/formats/sparse.md.
//
// Everything here is frozen: a number that changes is another format. The layout of a tile is chosen so that one warp decodes
// 32 changes a step and so that a reader needs no lengths besides the tile's own: words grow from the front, raw gap bits from
// the back, and together they must fill the tile exactly.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "base/checked_math.h"
#include "change/change_source.h"

namespace xorbit {

inline constexpr uint32_t kMaxTileChanges = 4096;   // sparse and plain tiles
inline constexpr uint32_t kMaxTileWindows = 65536;  // windows that a sparse tile may touch: keeps its span below 2^32
inline constexpr uint32_t kLanes = 32;
inline constexpr uint32_t kMaxPlanes = 8;

inline constexpr uint32_t kFrequencyBits = 12;
inline constexpr uint32_t kFrequencySum = 1U << kFrequencyBits;
inline constexpr uint32_t kStateFloor = 1U << 16;  // lane states stay in [floor, 2^32); encoding starts and decoding ends here
inline constexpr uint32_t kTileAlignment = 4;      // every tile starts on a multiple of this in the segment's body

inline constexpr uint32_t kGapSymbols = 128;
inline constexpr uint32_t kValueSymbols = 256;
inline constexpr uint32_t kDirectGaps = 16;  // gaps below this are their own symbols

enum class TileMode : uint8_t {
  kSparse = 0,  // gaps and values of the changed elements
  kDense = 1,   // values of all elements from first to last
  kRaw = 2,     // XOR bytes of all elements from first to last
  kPlain = 3,   // varint gap and value bytes of the changed elements
};

struct TileRecord {
  uint64_t first;   // first changed element of the segment
  uint64_t offset;  // in the segment's body; the tile ends where the next one begins, the last one where the body ends
  uint64_t before;  // lane 0 over the changed elements; 0 without digests
  uint64_t after;
  uint32_t span;  // last changed element - first
  uint16_t count_minus_1;
  uint8_t mode;       // TileMode
  uint8_t table_set;  // 0: a segment has one table set until data asks for more
};
static_assert(sizeof(TileRecord) == 40 && std::is_trivially_copyable_v<TileRecord>);
static_assert(offsetof(TileRecord, offset) == 8 && offsetof(TileRecord, before) == 16 && offsetof(TileRecord, after) == 24);
static_assert(offsetof(TileRecord, span) == 32 && offsetof(TileRecord, count_minus_1) == 36);
static_assert(offsetof(TileRecord, mode) == 38 && offsetof(TileRecord, table_set) == 39);

// A gap is the number of unchanged elements between two changes. From 16 on, four buckets an octave: the symbol holds the
// exponent and the two bits below the leading one, the rest are raw bits.
constexpr uint32_t GapSymbolOf(uint32_t gap) {
  // Without a branch, which random gaps would often mispredict: a direct gap is as far below the first bucket as 16 is above
  // it.
  const uint32_t bucketed = gap < kDirectGaps ? kDirectGaps : gap;
  const uint32_t exponent = 31 - static_cast<uint32_t>(std::countl_zero(bucketed));
  return 4 * exponent - 4 + (bucketed >> (exponent - 2)) - (bucketed - gap);
}
// Number of raw bits that follow the symbol: at most 29.
constexpr uint32_t GapBitCountOf(uint32_t symbol) { return symbol < kDirectGaps ? 0 : symbol / 4 - 2; }
// The smallest gap with this symbol; the raw bits are added to it.
constexpr uint32_t GapBaseOf(uint32_t symbol) {
  return symbol < kDirectGaps ? symbol : (4 + symbol % 4) << GapBitCountOf(symbol);
}
static_assert(GapSymbolOf(0) == 0 && GapSymbolOf(15) == 15 && GapSymbolOf(16) == 16 &&
              GapSymbolOf(UINT32_MAX) == kGapSymbols - 1);
static_assert(GapBaseOf(16) == 16 && GapBaseOf(17) == 20 && GapBaseOf(127) == 7U << 29 && GapBitCountOf(127) == 29);

// Whether a window is coded element by element: then that needs no more symbols than gaps and values would.
constexpr bool IsDenseWindow(uint64_t element_count, uint64_t change_count, uint32_t unit_bytes) {
  return change_count * (unit_bytes + 1) >= element_count * unit_bytes;
}

constexpr uint64_t PaddedTileBytes(uint64_t bytes) { return DivideRoundUp(bytes, kTileAlignment) * kTileAlignment; }

}  // namespace xorbit
