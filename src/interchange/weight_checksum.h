// Checksums of whole tensors as the weight_vNNNNNN folders name them: what a tensor's bytes must be after the change.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <variant>

#include "base/bytes.h"
#include "base/xxh3.h"

namespace xorbit {

enum class ChecksumFormat { kXxh128, kAdler32 };

// kUnsupported for blake3, which this build has no library for, and for names that nobody uses.
Result<ChecksumFormat> ParseChecksumFormat(std::string_view name);
std::string_view NameOf(ChecksumFormat format);

// Success if `text` could be a checksum of this format: lower-case hexadecimal of its length. kCorrupt otherwise.
Status CheckChecksumText(ChecksumFormat format, std::string_view text);

// Incremental. Not thread-safe.
class WeightChecksum {
 public:
  explicit WeightChecksum(ChecksumFormat format);
  void Update(ConstBytes bytes);
  // Of what came so far, as the folders write it: xxHash's canonical 32 digits, Adler-32 as 8 digits.
  std::string Text() const;

 private:
  std::variant<Xxh3, uint32_t> state_;
};

}  // namespace xorbit
