#include "codec/sparse_kernels.h"

#include <algorithm>

#include "base/bytes.h"
#include "base/checked_math.h"
#include "base/unit.h"

namespace xorbit {
namespace {

// Readers of words and raw bits; false from a checked one means that the region has ended.
template <bool kChecked>
bool Renormalize(TileDecode* tile, uint32_t* state) {
  if constexpr (kChecked) {
    if (*state >= kStateFloor) return true;
    if (2 * (tile->words_used + 1) > tile->region_bytes()) return false;
    *state = *state << 16 | LoadLe<uint16_t>(tile->region_begin + 2 * tile->words_used++);
  } else {
    const bool need = *state < kStateFloor;
    const uint32_t refilled = *state << 16 | LoadLe<uint16_t>(tile->region_begin + 2 * tile->words_used);
    *state = need ? refilled : *state;
    tile->words_used += need ? 1 : 0;
  }
  return true;
}

template <bool kChecked>
bool TakeBits(TileDecode* tile, uint32_t bit_count, uint32_t* bits) {
  const uint64_t end_word = (tile->bits_used + bit_count + 31) / 32;
  if (kChecked && 4 * end_word > tile->region_bytes()) return false;
  // The word that holds the first bit is the upper half of the 64 bits that end where it ends.
  const uint64_t pair = LoadLe<uint64_t>(tile->region_end - 4 * (tile->bits_used / 32 + 2));
  *bits = static_cast<uint32_t>(std::rotl(pair, 32) >> tile->bits_used % 32) & ((1U << bit_count) - 1);
  tile->bits_used += bit_count;
  return true;
}

// One row of a group: every lane's symbol, then every lane's refill, lanes ascending.
template <bool kChecked>
bool DecodeRow(TileDecode* tile, const DecodeTable& table, uint32_t first_lane, uint32_t lane_count, uint8_t* symbols) {
  for (uint32_t lane = first_lane; lane < lane_count; ++lane) {
    uint32_t x = tile->states[lane];
    const uint32_t slot = table[x % kFrequencySum];
    symbols[lane] = static_cast<uint8_t>(slot);
    x = ((slot >> 8 & (kFrequencySum - 1)) + 1) * (x >> kFrequencyBits) + (slot >> 20);
    if (!Renormalize<kChecked>(tile, &x)) return false;
    tile->states[lane] = x;
  }
  return true;
}

template <bool kChecked>
bool GapsToOffsets(TileDecode* tile, uint32_t first_lane, uint32_t lane_count, const uint8_t* symbols, uint32_t* offsets) {
  uint64_t offset = tile->offset;
  if (first_lane == 1) offsets[0] = 0;
  for (uint32_t lane = first_lane; lane < lane_count; ++lane) {
    uint32_t bits = 0;
    const uint32_t bit_count = GapBitCountOf(symbols[lane]);
    if (bit_count > 0 && !TakeBits<kChecked>(tile, bit_count, &bits)) return false;
    offset += uint64_t{GapBaseOf(symbols[lane])} + bits + 1;
    if (offset > tile->span) return false;
    offsets[lane] = static_cast<uint32_t>(offset);
  }
  tile->offset = static_cast<uint32_t>(offset);
  return true;
}

template <bool kChecked>
bool DecodeGroup(TileDecode* tile, uint32_t* offsets, uint8_t* xors) {
  const uint32_t lane_count = std::min(kLanes, tile->count - tile->next);
  std::array<uint8_t, kLanes> symbols;
  if (tile->gaps != nullptr) {
    const uint32_t first_lane = tile->next == 0 ? 1 : 0;  // the tile's first change has no gap
    if (!DecodeRow<kChecked>(tile, *tile->gaps, first_lane, lane_count, symbols.data())) return false;
    if (!GapsToOffsets<kChecked>(tile, first_lane, lane_count, symbols.data(), offsets + tile->next)) return false;
  }
  for (uint32_t plane = 0; plane < tile->unit_bytes; ++plane) {
    const uint8_t* bytes = symbols.data();
    if (tile->planes[plane] == nullptr) {
      bytes = tile->plane_bytes[plane] + tile->next;
    } else if (!DecodeRow<kChecked>(tile, *tile->planes[plane], 0, lane_count, symbols.data())) {
      return false;
    }
    uint8_t* target = xors + uint64_t{tile->next} * tile->unit_bytes + plane;
    for (uint32_t lane = 0; lane < lane_count; ++lane) target[lane * tile->unit_bytes] = bytes[lane];
  }
  tile->next += lane_count;
  return true;
}

bool DecodeGroupsPortable(TileDecode* tile, uint32_t* offsets, uint8_t* xors) {
  while (uint32_t group_count = tile->SafeGroupCount()) {
    for (; group_count > 0; --group_count) {
      if (!DecodeGroup<false>(tile, offsets, xors)) return false;
    }
  }
  return true;
}

void EncodeGroupsPortable(TileEncode* tile) {
  uint16_t* words = tile->words;
  for (uint32_t group = tile->group_count; group-- > 0;) {
    for (uint32_t row = tile->row_count; row-- > 0;) {
      const uint8_t* symbols = tile->symbols[row] + uint64_t{group} * kLanes;
      const EncodeTable& table = *tile->tables[row];
      for (uint32_t lane = kLanes; lane-- > 0;) EncodeSymbol(table, symbols[lane], &tile->states[lane], &words);
    }
  }
  tile->words = words;
}

void WindowGapsPortable(const uint16_t* positions, uint32_t count, uint8_t* symbols) {
  for (uint32_t i = 1; i < count; ++i) {
    symbols[i] = static_cast<uint8_t>(GapSymbolOf(static_cast<uint32_t>(positions[i] - positions[i - 1] - 1)));
  }
}

template <uint32_t kUnitBytes>
void SplitPlanesOf(const uint8_t* values, uint32_t count, uint8_t* const* planes) {
  for (uint32_t plane = 0; plane < kUnitBytes; ++plane) {
    uint8_t* target = planes[plane];
    for (uint32_t i = 0; i < count; ++i) target[i] = values[i * kUnitBytes + plane];
  }
}

void SplitPlanesPortable(const uint8_t* values, uint32_t unit_bytes, uint32_t count, uint8_t* const* planes) {
  WithUnit(unit_bytes, [&]<typename Unit>() { SplitPlanesOf<sizeof(Unit)>(values, count, planes); });
}

}  // namespace

uint32_t TileDecode::SafeGroupCount() const {
  constexpr uint64_t kWordLoadBytes = 32;
  constexpr uint64_t kBitLoadBytes = 128 - 4;  // the four bytes before the region are readable
  constexpr uint64_t kGroupBitBytes = kLanes * 29 / 8;
  const uint64_t group_word_bytes = 2 * uint64_t{kLanes} * (1 + unit_bytes);
  const uint64_t word_end = 2 * words_used + kWordLoadBytes;
  const uint64_t bit_end = DivideRoundUp(bits_used, 8) + kBitLoadBytes;
  const uint64_t bytes = region_bytes();
  if (word_end > bytes || bit_end > bytes) return 0;
  const uint64_t by_words = (bytes - word_end) / group_word_bytes;
  // The last group's load covers its own bits.
  const uint64_t by_bits = (bytes - bit_end) / kGroupBitBytes + 1;
  return static_cast<uint32_t>(std::min({by_words, by_bits, uint64_t{count - next} / kLanes}));
}

bool DecodeGroupsCarefully(TileDecode* tile, uint32_t group_count, uint32_t* offsets, uint8_t* xors) {
  for (; group_count > 0 && tile->next < tile->count; --group_count) {
    if (!DecodeGroup<true>(tile, offsets, xors)) return false;
  }
  return true;
}

bool GapsOfSafeGroup(TileDecode* tile, const uint8_t* symbols, uint32_t* offsets) {
  return GapsToOffsets<false>(tile, 0, kLanes, symbols, offsets);
}

const SparseKernels& PortableSparseKernels() {
  static constexpr SparseKernels kKernels = {&DecodeGroupsPortable, &EncodeGroupsPortable, &MakeGapsPortable,
                                             &WindowGapsPortable,   &SplitPlanesPortable,  &WeighStretchPortable};
  return kKernels;
}

}  // namespace xorbit
