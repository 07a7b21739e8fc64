#include "change/state_digest.h"

#include "base/sha256.h"

namespace xorbit {
namespace {

std::string Hex16(uint64_t value) {
  std::array<uint8_t, 8> big_endian{};
  for (int i = 0; i < 8; ++i) big_endian[static_cast<size_t>(i)] = static_cast<uint8_t>(value >> (56 - 8 * i));
  return ToHex(big_endian);
}

}  // namespace

std::string ToText(const StateDigest& digest) { return Hex16(digest.lane0) + Hex16(digest.lane1); }

Result<StateDigest> ParseStateDigest(std::string_view text) {
  if (text.size() != 32) return CorruptError("a state digest must be 32 hexadecimal digits");
  std::array<uint64_t, 2> lanes{};
  for (size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    uint64_t digit = 0;
    if (c >= '0' && c <= '9') {
      digit = static_cast<uint64_t>(c - '0');
    } else if (c >= 'a' && c <= 'f') {
      digit = static_cast<uint64_t>(c - 'a') + 10;
    } else {
      return CorruptError("a state digest must be 32 lower-case hexadecimal digits");
    }
    lanes[i / 16] = lanes[i / 16] << 4 | digit;
  }
  return StateDigest{lanes[0], lanes[1]};
}

uint64_t TensorKeyOf(std::string_view tensor_name) {
  Sha256 hash;
  hash.Update(AsBytes(std::string_view("xorbit-digest-1\0", 16)));
  hash.Update(AsBytes(tensor_name));
  return LoadLe<uint64_t>(hash.Finish().data());
}

StateDigest DigestOfRange(uint64_t tensor_key, uint64_t offset_bytes, ConstBytes bytes) {
  StateDigest sum;
  for (uint64_t i = 0; i < bytes.size(); ++i) sum += DigestOfElement(tensor_key, 1, offset_bytes + i, bytes[i]);
  return sum;
}

}  // namespace xorbit
