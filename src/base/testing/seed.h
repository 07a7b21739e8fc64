// The seed of a random test. The same one by default, so that what passed yesterday passes today; XORBIT_TEST_SEED=N explores
// others (./x test --full sets a new one and prints it), and replays a failure.
#pragma once

#include <charconv>
#include <cstdint>
#include <cstdlib>
#include <string_view>

namespace xorbit {

inline uint64_t TestSeed() {
  uint64_t seed = 20261129;
  if (const char* text = std::getenv("XORBIT_TEST_SEED"); text != nullptr) {
    const std::string_view digits = text;
    std::from_chars(digits.data(), digits.data() + digits.size(), seed);
  }
  return seed;
}

}  // namespace xorbit
