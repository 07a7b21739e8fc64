// EndOfRun against the plain search.
#include "base/ascending.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "base/testing/seed.h"

namespace xorbit {
namespace {

TEST(EndOfRun, IsTheFirstIndexPastTheRun) {
  std::mt19937_64 random(TestSeed());
  SCOPED_TRACE("XORBIT_TEST_SEED=" + std::to_string(TestSeed()));
  for (int round = 0; round < 2'000; ++round) {
    const uint32_t base = random() % 4 == 0 ? UINT32_MAX - 60 : 0;
    std::set<uint32_t> picked;
    for (uint64_t i = 1 + random() % 40; i > 0; --i) picked.insert(base + static_cast<uint32_t>(random() % 61));
    const std::vector<uint32_t> values(picked.begin(), picked.end());
    const auto begin = static_cast<uint32_t>(random() % values.size());
    const uint64_t run_count = random() % 8 == 0 ? UINT64_MAX - random() % 2 : 1 + random() % 70;
    const auto inside = [&](uint32_t value) { return value - values[begin] < run_count; };
    const auto wanted = std::find_if_not(values.begin() + begin, values.end(), inside) - values.begin();
    EXPECT_EQ(EndOfRun(values.data(), begin, static_cast<uint32_t>(values.size()), run_count), wanted);
  }
}

}  // namespace
}  // namespace xorbit
