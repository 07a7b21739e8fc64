#include "base/sha256.h"

#include <openssl/evp.h>

#include <cstdlib>

#include "base/text.h"

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

Result<Sha256Digest> ParseSha256(std::string_view hex) {
  Sha256Digest digest{};
  if (!ParseHex(hex, digest)) return CorruptError("a SHA-256 must be 64 lower-case hexadecimal digits");
  return digest;
}

}  // namespace xorbit
