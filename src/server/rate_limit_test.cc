// Token buckets against a clock of the test's own: a limit that is measured by waiting would depend on the machine.
#include "server/rate_limit.h"

#include <gtest/gtest.h>

namespace xorbit {
namespace {

TEST(RateLimitTest, LetsABurstPassAndThenItsRate) {
  RateLimit::Time now{};
  RateLimit limit(10, now);
  for (int i = 0; i < 10; ++i) EXPECT_EQ(limit.Take(0, now), 0);
  EXPECT_EQ(limit.Take(0, now), 1);
  EXPECT_EQ(limit.Take(1, now), 0);  // another role has its own
  now += std::chrono::milliseconds(250);
  EXPECT_EQ(limit.Take(0, now), 0);
  EXPECT_EQ(limit.Take(0, now), 0);
  EXPECT_EQ(limit.Take(0, now), 1);
  now += std::chrono::hours(1);
  for (int i = 0; i < 10; ++i) EXPECT_EQ(limit.Take(0, now), 0);
  EXPECT_EQ(limit.Take(0, now), 1);
}

TEST(RateLimitTest, SlowRatesAndNone) {
  RateLimit::Time now{};
  RateLimit slow(0.1, now);
  EXPECT_EQ(slow.Take(0, now), 0);
  now += std::chrono::milliseconds(10'500);
  EXPECT_EQ(slow.Take(0, now), 0);
  EXPECT_EQ(slow.Take(0, now), 10);
  RateLimit hardly(1e-300, now);
  EXPECT_EQ(hardly.Take(0, now), 0);
  EXPECT_EQ(hardly.Take(0, now), 86'400);
  RateLimit none(0, now);
  for (int i = 0; i < 10'000; ++i) EXPECT_EQ(none.Take(2, now), 0);
}

TEST(CallSlotsTest, SomeAtOnce) {
  CallSlots slots;
  for (int i = 0; i < CallSlots::kCount; ++i) EXPECT_TRUE(slots.TryTake());
  EXPECT_FALSE(slots.TryTake());
  slots.Return();
  EXPECT_TRUE(slots.TryTake());
  EXPECT_FALSE(slots.TryTake());
}

}  // namespace
}  // namespace xorbit
