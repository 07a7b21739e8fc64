#include "base/sha256.h"

#include <openssl/evp.h>

#include <cstdlib>

namespace xorbit {

// OpenSSL fails here only when it cannot allocate or was built without SHA-256: nothing a caller could handle.
struct Sha256::Context {
  Context() : evp(EVP_MD_CTX_new()) {
    if (evp == nullptr || EVP_DigestInit_ex(evp, EVP_sha256(), nullptr) != 1) std::abort();
  }
  ~Context() { EVP_MD_CTX_free(evp); }
  Context(const Context&) = delete;
  Context& operator=(const Context&) = delete;
  EVP_MD_CTX* evp;
};

Sha256::Sha256() : context_(std::make_unique<Context>()) {}
Sha256::~Sha256() = default;
Sha256::Sha256(Sha256&&) noexcept = default;
Sha256& Sha256::operator=(Sha256&&) noexcept = default;

void Sha256::Update(ConstBytes bytes) {
  if (EVP_DigestUpdate(context_->evp, bytes.data(), bytes.size()) != 1) std::abort();
}

Sha256Digest Sha256::Finish() {
  Sha256Digest digest{};
  unsigned int length = 0;
  if (EVP_DigestFinal_ex(context_->evp, digest.data(), &length) != 1 || length != digest.size()) std::abort();
  return digest;
}

Sha256Digest Sha256Of(ConstBytes bytes) {
  Sha256 hash;
  hash.Update(bytes);
  return hash.Finish();
}

std::string ToHex(ConstBytes bytes) {
  static constexpr char kDigits[] = "0123456789abcdef";
  std::string hex;
  hex.reserve(bytes.size() * 2);
  for (const uint8_t byte : bytes) {
    hex.push_back(kDigits[byte >> 4]);
    hex.push_back(kDigits[byte & 15]);
  }
  return hex;
}

Result<Sha256Digest> ParseSha256(std::string_view hex) {
  const auto digit = [](char c) -> int {
    if (c >= '0' && c <= '9') return c - '0';
    if (c >= 'a' && c <= 'f') return c - 'a' + 10;
    return -1;
  };
  Sha256Digest digest{};
  if (hex.size() != digest.size() * 2) return CorruptError("a SHA-256 must be 64 hexadecimal digits");
  for (size_t i = 0; i < digest.size(); ++i) {
    const int high = digit(hex[2 * i]);
    const int low = digit(hex[2 * i + 1]);
    if (high < 0 || low < 0) return CorruptError("a SHA-256 must be 64 lower-case hexadecimal digits");
    digest[i] = static_cast<uint8_t>(high * 16 + low);
  }
  return digest;
}

}  // namespace xorbit
