// SHA-256 (FIPS 180-4) by OpenSSL. It identifies files and formats; live memory is identified by the state digest instead.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "base/bytes.h"
#include "base/text.h"  // ToHex: who has a digest wants to show it

namespace xorbit {

using Sha256Digest = std::array<uint8_t, 32>;

// Incremental hash. Update() any number of times, then Finish() once. Not thread-safe.
class Sha256 {
 public:
  Sha256();
  ~Sha256();
  Sha256(Sha256&&) noexcept;
  Sha256& operator=(Sha256&&) noexcept;

  void Update(ConstBytes bytes);
  Sha256Digest Finish();

 private:
  struct Context;
  std::unique_ptr<Context> context_;
};

Sha256Digest Sha256Of(ConstBytes bytes);

// Exactly 64 lower-case hexadecimal digits, else kCorrupt.
Result<Sha256Digest> ParseSha256(std::string_view hex);

}  // namespace xorbit
