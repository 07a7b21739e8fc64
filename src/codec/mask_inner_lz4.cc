// LZ4 blocks (lz4 block format description): sequences of a token, literals, a 16-bit offset and a match. Lengths grow by bytes
// of 255, so a zero run costs one byte for every 255 zeros: the smallest of the standard formats for a sparse mask.
//
// End rules: the block ends in literals, at least 5 of them, and the last match starts at least 12 bytes before the end. So
// blocks below 13 bytes hold literals only.
#include <lz4.h>

#include <algorithm>
#include <cstring>

#include "codec/mask_inner.h"

namespace xorbit {
namespace {

constexpr uint64_t kMinMatchBytes = 4;
constexpr uint64_t kLastLiteralBytes = 5;
constexpr uint64_t kLastMatchDistance = 12;
constexpr uint64_t kNibbleMax = 15;

// The part of a length that does not fit its nibble.
uint8_t* EmitLengthTail(uint64_t tail, uint8_t* out) {
  const uint64_t full = tail / 255;
  if (full <= sizeof(uint64_t)) {
    StoreLe(out, ~uint64_t{0});
  } else {
    std::memset(out, 0xff, full);
  }
  out[full] = static_cast<uint8_t>(tail % 255);
  return out + full + 1;
}

// Token and literals [at, literal_end), which hold changes [first, last). match_nibble goes into the token.
uint8_t* EmitLiterals(const SparseMask& mask, uint64_t at, uint64_t literal_end, uint64_t first, uint64_t last,
                      uint64_t match_nibble, uint8_t* out) {
  const uint64_t byte_count = literal_end - at;
  *out++ = static_cast<uint8_t>(std::min(byte_count, kNibbleMax) << 4 | match_nibble);
  if (byte_count >= kNibbleMax) out = EmitLengthTail(byte_count - kNibbleMax, out);
  return CopyMaskBytes(mask, at, literal_end, first, last, out);
}

class Lz4 final : public InnerCodec {
 public:
  uint64_t MaxInnerBytes(uint64_t mask_bytes) const override {
    return static_cast<uint64_t>(LZ4_compressBound(static_cast<int>(mask_bytes)));
  }

  Result<uint64_t> Encode(const SparseMask& mask, int, uint8_t* target, Buffer*) const override {
    const uint64_t count = mask.positions.size();
    const uint64_t end = mask.mask_bytes;
    uint8_t* out = target;
    uint64_t next = 0;  // change
    for (uint64_t at = 0;;) {
      const uint64_t first = next;
      uint64_t literal_end = at + 1;
      while (next < count && mask.positions[next] < literal_end + kMinMatchBytes) literal_end = mask.positions[next++] + 2;
      if (literal_end + kLastMatchDistance > end) {
        out = EmitLiterals(mask, at, end, first, count, 0, out);
        return static_cast<uint64_t>(out - target);
      }
      const uint64_t match_end = std::min<uint64_t>(next < count ? mask.positions[next] : end, end - kLastLiteralBytes);
      const uint64_t match_length = match_end - literal_end - kMinMatchBytes;
      out = EmitLiterals(mask, at, literal_end, first, next, std::min(match_length, kNibbleMax), out);
      StoreLe<uint16_t>(out, 1);  // offset
      out += 2;
      if (match_length >= kNibbleMax) out = EmitLengthTail(match_length - kNibbleMax, out);
      at = match_end;
    }
  }

  Status Decode(ConstBytes inner, MutableBytes mask) const override {
    const int written = LZ4_decompress_safe(reinterpret_cast<const char*>(inner.data()), reinterpret_cast<char*>(mask.data()),
                                            static_cast<int>(inner.size()), static_cast<int>(mask.size()));
    if (written < 0) return CorruptError("malformed LZ4 block");
    if (static_cast<uint64_t>(written) != mask.size()) return CorruptError("LZ4 block is shorter than its frame");
    return {};
  }
};

}  // namespace

const InnerCodec& Lz4Inner() {
  static const Lz4 codec;
  return codec;
}

}  // namespace xorbit
