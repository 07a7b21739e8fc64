#include "interchange/weight_checksum.h"

#include <zlib.h>

#include <array>

#include "base/text.h"

namespace xorbit {
namespace {

constexpr uint32_t kAdler32Start = 1;

size_t DigitsOf(ChecksumFormat format) { return format == ChecksumFormat::kXxh128 ? 32 : 8; }

}  // namespace

Result<ChecksumFormat> ParseChecksumFormat(std::string_view name) {
  if (name == "xxh3-128") return ChecksumFormat::kXxh128;
  if (name == "adler32") return ChecksumFormat::kAdler32;
  if (name == "blake3") {
    return UnsupportedError("blake3 checksums cannot be verified by this build; have the trainer write xxh3-128");
  }
  return UnsupportedError("checksum format '" + std::string(name.substr(0, 40)) +
                          "' is unknown; xxh3-128 and adler32 are read");
}

std::string_view NameOf(ChecksumFormat format) { return format == ChecksumFormat::kXxh128 ? "xxh3-128" : "adler32"; }

Status CheckChecksumText(ChecksumFormat format, std::string_view text) {
  std::array<uint8_t, 16> bytes{};
  if (ParseHex(text, MutableBytes(bytes).first(DigitsOf(format) / 2))) return {};
  return CorruptError("its checksum is not " + std::to_string(DigitsOf(format)) + " lower-case hexadecimal digits");
}

WeightChecksum::WeightChecksum(ChecksumFormat format) {
  if (format == ChecksumFormat::kAdler32) state_ = kAdler32Start;
}

void WeightChecksum::Update(ConstBytes bytes) {
  if (Xxh3* xxh3 = std::get_if<Xxh3>(&state_)) {
    xxh3->Update(bytes);
  } else {
    uint32_t& adler = std::get<uint32_t>(state_);
    adler = static_cast<uint32_t>(::adler32_z(adler, bytes.data(), bytes.size()));
  }
}

std::string WeightChecksum::Text() const {
  if (const Xxh3* xxh3 = std::get_if<Xxh3>(&state_)) {
    const Xxh3Digest digest = xxh3->Finish();
    return ToHex(digest.high, 16) + ToHex(digest.low, 16);
  }
  return ToHex(std::get<uint32_t>(state_), 8);
}

}  // namespace xorbit
