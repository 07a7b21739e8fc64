// Holds the names of the SIMD levels to their parser, and forcing a level to what the machine has.
#include "base/cpu_level.h"

#include <gtest/gtest.h>

namespace xorbit {
namespace {

TEST(CpuLevelTest, NamesAreParsedBack) {
  for (const CpuLevel level : {CpuLevel::kPortable, CpuLevel::kAvx2, CpuLevel::kAvx512, CpuLevel::kNeon}) {
    EXPECT_EQ(ParseCpuLevel(NameOf(level)), level);
  }
  EXPECT_EQ(ParseCpuLevel("sse"), std::nullopt);
  EXPECT_EQ(ParseCpuLevel(""), std::nullopt);
}

TEST(CpuLevelTest, EveryAvailableLevelCanBeForcedAndOthersAreRefused) {
  ASSERT_FALSE(AvailableCpuLevels().empty());
  EXPECT_EQ(AvailableCpuLevels().front(), CpuLevel::kPortable);
  EXPECT_EQ(ActiveCpuLevel(), BestCpuLevel());
  for (const CpuLevel level : AvailableCpuLevels()) {
    ASSERT_TRUE(ForceCpuLevel(level).ok());
    EXPECT_EQ(ActiveCpuLevel(), level);
  }
#if defined(__x86_64__)
  const CpuLevel impossible = CpuLevel::kNeon;
#else
  const CpuLevel impossible = CpuLevel::kAvx2;
#endif
  ASSERT_TRUE(ForceCpuLevel(CpuLevel::kPortable).ok());
  EXPECT_EQ(ForceCpuLevel(impossible).code(), Code::kUnsupported);
  EXPECT_EQ(ActiveCpuLevel(), CpuLevel::kPortable);
  ASSERT_TRUE(ForceCpuLevel(std::nullopt).ok());
  EXPECT_EQ(ActiveCpuLevel(), BestCpuLevel());
}

}  // namespace
}  // namespace xorbit
