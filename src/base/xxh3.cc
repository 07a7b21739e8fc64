#include "base/xxh3.h"

#include <xxhash.h>

#include <new>

namespace xorbit {

struct Xxh3::State {
  State() : xxh(XXH3_createState()) {
    if (xxh == nullptr) throw std::bad_alloc();
    XXH3_128bits_reset(xxh);
  }
  ~State() { XXH3_freeState(xxh); }
  State(const State&) = delete;
  State& operator=(const State&) = delete;

  XXH3_state_t* xxh;
};

Xxh3::Xxh3() : state_(std::make_unique<State>()) {}
Xxh3::~Xxh3() = default;
Xxh3::Xxh3(Xxh3&&) noexcept = default;
Xxh3& Xxh3::operator=(Xxh3&&) noexcept = default;

void Xxh3::Update(ConstBytes bytes) { XXH3_128bits_update(state_->xxh, bytes.data(), bytes.size()); }

Xxh3Digest Xxh3::Finish() const {
  const XXH128_hash_t hash = XXH3_128bits_digest(state_->xxh);
  return {hash.low64, hash.high64};
}

Xxh3Digest Xxh3Of(ConstBytes bytes) {
  const XXH128_hash_t hash = XXH3_128bits(bytes.data(), bytes.size());
  return {hash.low64, hash.high64};
}

uint64_t Xxh3Hash64Of(ConstBytes bytes) { return XXH3_64bits(bytes.data(), bytes.size()); }

}  // namespace xorbit
