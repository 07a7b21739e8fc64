#include "change/state_digest.h"

#include "base/sha256.h"
#include "base/text.h"

namespace xorbit {

std::string ToText(const StateDigest& digest) { return ToHex(digest.lane0, 16) + ToHex(digest.lane1, 16); }

Result<StateDigest> ParseStateDigest(std::string_view text) {
  std::array<uint8_t, 16> lanes{};  // most significant bytes first
  if (!ParseHex(text, lanes)) return CorruptError("a state digest must be 32 lower-case hexadecimal digits");
  return StateDigest{__builtin_bswap64(LoadLe<uint64_t>(lanes.data())), __builtin_bswap64(LoadLe<uint64_t>(lanes.data() + 8))};
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
