#include "codec/sparse_gaps.h"

#include <array>
#include <bit>

namespace xorbit {
namespace {

// Per gap symbol: its raw bits, and the bytes of its gaps as varints. All gaps of a symbol take as many, because varints grow
// at powers of two.
struct GapInfo {
  uint8_t bit_count;
  uint8_t varint_bytes;
};
constexpr std::array<GapInfo, kGapSymbols> kGapInfo = [] {
  std::array<GapInfo, kGapSymbols> info{};
  for (uint32_t symbol = 0; symbol < kGapSymbols; ++symbol) {
    const auto width = static_cast<uint32_t>(std::bit_width(GapBaseOf(symbol) | 1));
    info[symbol] = {static_cast<uint8_t>(GapBitCountOf(symbol)), static_cast<uint8_t>((width + 6) / 7)};
  }
  return info;
}();

}  // namespace

void MakeGapsPortable(const uint32_t* offsets, uint32_t count, GapCode* code) {
  // In locals, because a store of a symbol could be to any member as far as the compiler knows.
  uint8_t* const symbols = code->symbols;
  uint32_t varint_bytes = 0;
  BitWriter writer(code->bits);
  const auto make = [&](uint32_t i) {
    const uint32_t gap = offsets[i] - offsets[i - 1] - 1;
    const uint32_t symbol = GapSymbolOf(gap);
    symbols[i] = static_cast<uint8_t>(symbol);
    varint_bytes += kGapInfo[symbol].varint_bytes;
    const uint32_t bit_count = kGapInfo[symbol].bit_count;
    return BitField{gap & ((1U << bit_count) - 1), bit_count};
  };
  symbols[0] = kNoGapSymbol;
  // Four gaps at a time where they fit: only the writer's state is carried from step to step, so fewer steps take less time.
  uint32_t i = 1;
  for (; i + 3 < count; i += 4) {
    const BitField first = make(i);
    const BitField low = Join(first, make(i + 1));
    const BitField third = make(i + 2);
    const BitField high = Join(third, make(i + 3));
    if (low.bit_count + high.bit_count <= BitWriter::kMaxBits) {
      writer.Put(Join(low, high));
    } else {
      writer.Put(low);
      writer.Put(high);
    }
  }
  for (; i < count; ++i) writer.Put(make(i));
  code->varint_bytes = varint_bytes;
  code->bit_words = writer.Finish();
}

}  // namespace xorbit
