// Which allocations are spoken of: the lengths alone decide, so no device is needed.
#include "receive/small_pages.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <vector>

namespace xorbit {
namespace {

std::string Advice(const std::vector<uint64_t>& allocated_bytes) { return SmallPagesAdvice(allocated_bytes); }

TEST(SmallPages, WholePagesAndWhatIsSmallerNeedNoAdvice) {
  EXPECT_EQ(Advice({}), "");
  EXPECT_EQ(Advice({kDevicePageBytes, 50'000 * kDevicePageBytes}), "");
  EXPECT_EQ(Advice({0, 512, kDevicePageBytes - 512}), "");
}

TEST(SmallPages, TheAdviceSaysHowManyAndHowLarge) {
  const uint64_t odd = 3 * kDevicePageBytes + 512;
  EXPECT_THAT(
      Advice({kDevicePageBytes, odd, 512, odd}),
      testing::StartsWith("2 of the engine's 4 allocations on the device, with " + std::to_string(2 * odd) + " bytes, "));
}

}  // namespace
}  // namespace xorbit
