// Raw Snappy blocks (format description in google/snappy): a varint of the decoded length, then literals and copies. A literal
// of up to 60 bytes has a one-byte tag; a copy with a 16-bit offset takes 3 bytes for up to 64 bytes, so long zero runs cost 3
// bytes for every 64. The stream cannot start with a copy.
#include <snappy.h>

#include <array>
#include <cstring>

#include "codec/mask_inner.h"

namespace xorbit {
namespace {

constexpr uint64_t kMaxCopyBytes = 64;
constexpr uint64_t kCopyElementBytes = 3;

// Shorter zero runs stay in the literal. A run that is copied ends a literal, which may cost a tag of up to 4 bytes (frames are
// at most 4 MiB) and a copy of 3: from 8 on the stream is never longer than the mask as one literal.
constexpr uint64_t kMinCopyBytes = 8;

// Copies of 64 bytes from one byte back, as many as one store holds.
constexpr uint64_t kCopiesPerStore = 16;
constexpr auto kFullCopies = [] {
  std::array<uint8_t, kCopiesPerStore * kCopyElementBytes> pattern{};
  for (size_t i = 0; i < kCopiesPerStore; ++i) {
    pattern[kCopyElementBytes * i] = 0xfe;  // length 64, 16-bit offset
    pattern[kCopyElementBytes * i + 1] = 1;
  }
  return pattern;
}();
static_assert(kFullCopies.size() <= kInnerSlackBytes);

uint8_t* EmitZeroRun(uint64_t zero_count, uint8_t* out) {
  const uint64_t full_bytes = zero_count / kMaxCopyBytes * kCopyElementBytes;
  for (uint64_t done = 0; done < full_bytes; done += kFullCopies.size()) {
    std::memcpy(out + done, kFullCopies.data(), kFullCopies.size());
  }
  out += full_bytes;
  const uint64_t rest = zero_count % kMaxCopyBytes;
  if (rest == 0) return out;
  // Also where the 2-byte copy would do (4 to 11 bytes): one kind of copy leaves the outer Zstd less to say.
  out[0] = static_cast<uint8_t>((rest - 1) << 2 | 2);
  out[1] = 1;
  out[2] = 0;
  return out + kCopyElementBytes;
}

uint8_t* EmitLiteralTag(uint64_t byte_count, uint8_t* out) {
  const uint64_t last = byte_count - 1;
  if (last < 60) {
    *out = static_cast<uint8_t>(last << 2);
    return out + 1;
  }
  const uint32_t length_bytes = last < 1U << 8 ? 1 : last < 1U << 16 ? 2 : 3;
  static_assert((uint64_t{1} << 24) >= 4 * (uint64_t{1} << 20));
  *out = static_cast<uint8_t>((59 + length_bytes) << 2);
  StoreLe(out + 1, static_cast<uint32_t>(last));
  return out + 1 + length_bytes;
}

class Snappy final : public InnerCodec {
 public:
  uint64_t MaxInnerBytes(uint64_t mask_bytes) const override { return snappy::MaxCompressedLength(mask_bytes); }

  Result<uint64_t> Encode(const SparseMask& mask, int, uint8_t* target, Buffer*) const override {
    const uint64_t count = mask.positions.size();
    uint8_t* out = EmitLength(mask.mask_bytes, target);
    uint64_t next = 0;  // change
    for (uint64_t at = 0; at < mask.mask_bytes;) {
      const uint64_t first = next;
      uint64_t literal_end = at + 1;
      while (next < count && mask.positions[next] < literal_end + kMinCopyBytes) literal_end = mask.positions[next++] + 2;
      const uint64_t run_end = next < count ? mask.positions[next] : mask.mask_bytes;
      if (run_end < literal_end + kMinCopyBytes) literal_end = run_end;
      out = EmitLiteralTag(literal_end - at, out);
      out = CopyMaskBytes(mask, at, literal_end, first, next, out);
      out = EmitZeroRun(run_end - literal_end, out);
      at = run_end;
    }
    return static_cast<uint64_t>(out - target);
  }

  Status Decode(ConstBytes inner, MutableBytes mask) const override {
    const auto* bytes = reinterpret_cast<const char*>(inner.data());
    size_t stated_bytes = 0;
    if (!snappy::GetUncompressedLength(bytes, inner.size(), &stated_bytes) || stated_bytes != mask.size()) {
      return CorruptError("Snappy block does not state the frame's length");
    }
    if (!snappy::RawUncompress(bytes, inner.size(), reinterpret_cast<char*>(mask.data()))) {
      return CorruptError("malformed Snappy block");
    }
    return {};
  }

 private:
  static uint8_t* EmitLength(uint64_t value, uint8_t* out) {
    for (; value >= 0x80; value >>= 7) *out++ = static_cast<uint8_t>(value | 0x80);
    *out++ = static_cast<uint8_t>(value);
    return out;
  }
};

}  // namespace

const InnerCodec& SnappyInner() {
  static const Snappy codec;
  return codec;
}

}  // namespace xorbit
