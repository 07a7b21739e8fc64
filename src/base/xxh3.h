// XXH3 (https://github.com/Cyan4973/xxHash): a checksum at memory speed for what we wrote ourselves and for
// foreign formats that name it. It finds accidents; what must withstand attackers is named by SHA-256.
#pragma once

#include <cstdint>
#include <memory>

#include "base/bytes.h"

namespace xorbit {

struct Xxh3Digest {
  uint64_t low = 0;
  uint64_t high = 0;  // the half whose digits come first in xxHash's canonical text

  friend bool operator==(const Xxh3Digest&, const Xxh3Digest&) = default;
};

// Incremental hash, seed 0. Update() any number of times; Finish() gives the hash of what came so far. Not thread-safe.
class Xxh3 {
 public:
  Xxh3();
  ~Xxh3();
  Xxh3(Xxh3&&) noexcept;
  Xxh3& operator=(Xxh3&&) noexcept;

  void Update(ConstBytes bytes);
  Xxh3Digest Finish() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

Xxh3Digest Xxh3Of(ConstBytes bytes);

// The 64-bit XXH3, which is another function than either half of the 128-bit one.
uint64_t Xxh3Hash64Of(ConstBytes bytes);

}  // namespace xorbit
