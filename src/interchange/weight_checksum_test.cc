// Checksums must be the very digits that the Python tools write, or every folder of theirs would look damaged.
#include "interchange/weight_checksum.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace xorbit {
namespace {

std::string TextOf(ChecksumFormat format, std::string_view a, std::string_view b = "") {
  WeightChecksum checksum(format);
  checksum.Update(AsBytes(a));
  checksum.Update(AsBytes(b));
  return checksum.Text();
}

// Reference values: `xxhsum -H2`, and zlib.adler32 of Python.
TEST(WeightChecksum, WritesWhatOthersWrite) {
  EXPECT_EQ(TextOf(ChecksumFormat::kXxh128, ""), "99aa06d3014798d86001c324468d497f");
  EXPECT_EQ(TextOf(ChecksumFormat::kXxh128, "abc"), "06b05ab6733a618578af5f94892f3950");
  EXPECT_EQ(TextOf(ChecksumFormat::kAdler32, ""), "00000001");
  EXPECT_EQ(TextOf(ChecksumFormat::kAdler32, "Wikipedia"), "11e60398");
}

TEST(WeightChecksum, DoesNotDependOnPieces) {
  for (const ChecksumFormat format : {ChecksumFormat::kXxh128, ChecksumFormat::kAdler32}) {
    EXPECT_EQ(TextOf(format, "Wiki", "pedia"), TextOf(format, "Wikipedia"));
    EXPECT_NE(TextOf(format, "Wikipedia"), TextOf(format, "Wikipedib"));
  }
}

TEST(WeightChecksum, NamesRoundTrip) {
  for (const ChecksumFormat format : {ChecksumFormat::kXxh128, ChecksumFormat::kAdler32}) {
    EXPECT_EQ(ParseChecksumFormat(NameOf(format)).value(), format);
    EXPECT_TRUE(CheckChecksumText(format, TextOf(format, "x")).ok());
  }
}

TEST(WeightChecksum, RefusesBlake3WithAWayOut) {
  const Status status = ParseChecksumFormat("blake3").status();
  EXPECT_EQ(status.code(), Code::kUnsupported);
  EXPECT_THAT(status.message(), testing::HasSubstr("xxh3-128"));
  EXPECT_EQ(ParseChecksumFormat("md5").status().code(), Code::kUnsupported);
}

TEST(WeightChecksum, RefusesTextsThatCannotMatch) {
  for (const std::string_view text : {"", "1", "0000000g", "0000000A", "000000001"}) {
    EXPECT_EQ(CheckChecksumText(ChecksumFormat::kAdler32, text).code(), Code::kCorrupt) << text;
  }
}

}  // namespace
}  // namespace xorbit
