// No flipped bit and no cut of a text with a checksum is taken for what was written.
#include "base/checksum_field.h"

#include <gtest/gtest.h>

namespace xorbit {
namespace {

TEST(ChecksumField, EndsWithTheChecksumOfAllBefore) {
  const std::string text = WithChecksum("{\"a\":1}\n");
  EXPECT_EQ(text.substr(0, 21), "{\"a\":1,\"checksum\":\"" + text.substr(19, 2));
  EXPECT_TRUE(text.ends_with("\"}\n"));
  EXPECT_TRUE(CheckChecksum(text).ok());
  EXPECT_FALSE(CheckChecksum("{\"a\":1}\n").ok());
  EXPECT_FALSE(CheckChecksum("").ok());
}

TEST(ChecksumField, RefusesEveryFlippedBitAndEveryCut) {
  const std::string text = WithChecksum("{\"version\":9,\"decision\":\"aborted\"}\n");
  for (size_t i = 0; i < text.size(); ++i) {
    EXPECT_FALSE(CheckChecksum(std::string_view(text).substr(0, i)).ok());
    for (int bit = 0; bit < 8; ++bit) {
      std::string flipped = text;
      flipped[i] = static_cast<char>(flipped[i] ^ (1 << bit));
      EXPECT_EQ(CheckChecksum(flipped).code(), Code::kCorrupt);
    }
  }
}

}  // namespace
}  // namespace xorbit
