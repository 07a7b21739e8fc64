#include "base/bytes.h"

#include <string>

namespace xorbit {

void AppendVarint(Buffer& out, uint64_t value) {
  while (value >= 0x80) {
    out.push_back(static_cast<uint8_t>(value | 0x80));
    value >>= 7;
  }
  out.push_back(static_cast<uint8_t>(value));
}

Status ByteReader::Truncated(std::string_view what) {
  return CorruptError("truncated: the bytes end before " + std::string(what));
}

Result<ConstBytes> ByteReader::ReadBytes(uint64_t count, std::string_view what) {
  if (remaining() < count) return Truncated(what);
  ConstBytes out = bytes_.subspan(at_, count);
  at_ += count;
  return out;
}

Result<uint64_t> ByteReader::ReadVarint(std::string_view what) {
  uint64_t value = 0;
  for (int shift = 0; shift < 70; shift += 7) {
    if (remaining() == 0) return Truncated(what);
    const uint8_t byte = bytes_[at_++];
    const uint64_t low_bits = byte & 0x7f;
    if (shift == 63 && low_bits > 1) break;
    value |= low_bits << shift;
    if ((byte & 0x80) == 0) {
      if (byte == 0 && shift != 0) break;
      return value;
    }
  }
  return CorruptError("malformed variable-length number for " + std::string(what));
}

}  // namespace xorbit
