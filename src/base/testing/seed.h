// The seed of a random test. The same one by default, so that what passed yesterday passes today; XORBIT_TEST_SEED=N explores
// others (./x test --full sets a new one and prints it), and replays a failure. XORBIT_TEST_ROUNDS=N asks the long ones among
// them for more, or fewer, rounds than they take by themselves.
#pragma once

#include <charconv>
#include <cstdint>
#include <cstdlib>
#include <string_view>

namespace xorbit {

inline uint64_t NumberFromEnvironment(const char* name, uint64_t otherwise) {
  if (const char* text = std::getenv(name); text != nullptr) {
    const std::string_view digits = text;
    std::from_chars(digits.data(), digits.data() + digits.size(), otherwise);
  }
  return otherwise;
}

inline uint64_t TestSeed() { return NumberFromEnvironment("XORBIT_TEST_SEED", 20261129); }

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
inline constexpr bool kIsSanitized = true;
#elif defined(__has_feature)
inline constexpr bool kIsSanitized = __has_feature(address_sanitizer) || __has_feature(thread_sanitizer);
#else
inline constexpr bool kIsSanitized = false;
#endif

// Under a sanitizer every round takes several times as long, and a third of them: what it finds it finds in any round of a
// kind, and the release build goes through all.
inline uint64_t TestRounds(uint64_t otherwise) {
  return NumberFromEnvironment("XORBIT_TEST_ROUNDS", kIsSanitized ? (otherwise + 2) / 3 : otherwise);
}

}  // namespace xorbit
