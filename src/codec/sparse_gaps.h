// A tile's gaps on the encoder's side: their symbols for the rANS loop and their raw bits as one stream.
#pragma once

#include <cstdint>

#include "base/bytes.h"
#include "codec/sparse_format.h"

namespace xorbit {

inline constexpr uint8_t kNoGapSymbol = kGapSymbols;  // has no frequency in any gap table, so coding it is a no-op

// What a tile's gaps become. The caller owns both buffers: `symbols` with room for kMaxTileChanges, `bits` for kGapBitsBytes.
struct GapCode {
  uint8_t* symbols = nullptr;  // symbols[i] of the gap before change i; symbols[0] = kNoGapSymbol
  uint8_t* bits = nullptr;     // raw bits, low ones first, filled up with zeros to whole 32-bit words
  uint32_t bit_words = 0;
  uint32_t varint_bytes = 0;  // of all gaps, if the tile became plain
};

// Codes the gaps between `count` (1 to kMaxTileChanges) ascending offsets. All implementations give the same.
using MakeGaps = void (*)(const uint32_t* offsets, uint32_t count, GapCode* code);
void MakeGapsPortable(const uint32_t* offsets, uint32_t count, GapCode* code);

struct BitField {
  uint64_t bits;  // none above bit_count
  uint32_t bit_count;
};

// `low`, then `high`: together at most 64 bits.
inline BitField Join(const BitField& low, const BitField& high) {
  return {low.bits | high.bits << low.bit_count, low.bit_count + high.bit_count};
}

// Appends bit fields, low bits first. Whole bytes leave the accumulator after each field.
class BitWriter {
 public:
  static constexpr uint32_t kMaxBits = 56;    // of one field: seven bits may be waiting, and not all 64 may leave at once
  static constexpr uint32_t kSpareBytes = 8;  // past the last bit

  explicit BitWriter(uint8_t* target) : begin_(target), at_(target) {}
  void Put(uint64_t bits, uint32_t bit_count) {
    waiting_ |= bits << waiting_count_;
    StoreLe(at_, waiting_);
    waiting_count_ += bit_count;
    at_ += waiting_count_ / 8;
    waiting_ >>= waiting_count_ / 8 * 8;
    waiting_count_ %= 8;
  }
  void Put(const BitField& field) {
    if (field.bit_count <= kMaxBits) return Put(field.bits, field.bit_count);
    Put(field.bits & 0xffffffff, 32);
    Put(field.bits >> 32, field.bit_count - 32);
  }
  // Fills the last 32-bit word with zeros and returns the number of words.
  uint32_t Finish() {
    StoreLe(at_, waiting_);
    return static_cast<uint32_t>((at_ - begin_ + (waiting_count_ > 0 ? 1 : 0) + 3) / 4);
  }

 private:
  uint8_t* begin_;
  uint8_t* at_;
  uint64_t waiting_ = 0;
  uint32_t waiting_count_ = 0;
};

inline constexpr uint32_t kGapBitsBytes = 4 * kMaxTileChanges + BitWriter::kSpareBytes;

}  // namespace xorbit
