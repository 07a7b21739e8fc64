// The little-endian coding under every format: goldens, and reads that must not pass the end.
#include "base/bytes.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>

#include "base/sha256.h"
#include "base/testing/seed.h"
#include "base/text.h"

namespace xorbit {
namespace {

using testing::ElementsAre;

Buffer Varint(uint64_t value) {
  Buffer out;
  AppendVarint(out, value);
  return out;
}

TEST(BytesTest, IntegersAreLittleEndian) {
  Buffer out;
  AppendLe<uint32_t>(out, 0x01020304);
  AppendLe<uint16_t>(out, 0xaabb);
  EXPECT_THAT(out, ElementsAre(4, 3, 2, 1, 0xbb, 0xaa));
  EXPECT_EQ(LoadLe<uint32_t>(out.data() + 1), 0xbb010203);
}

TEST(BytesTest, VarintGoldens) {
  EXPECT_THAT(Varint(0), ElementsAre(0));
  EXPECT_THAT(Varint(127), ElementsAre(0x7f));
  EXPECT_THAT(Varint(128), ElementsAre(0x80, 0x01));
  EXPECT_THAT(Varint(300), ElementsAre(0xac, 0x02));
  EXPECT_THAT(Varint(UINT64_MAX), ElementsAre(0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01));
}

TEST(BytesTest, VarintsReadBack) {
  const auto seed = TestSeed();
  SCOPED_TRACE(seed);
  std::mt19937_64 random(seed);
  Buffer out;
  std::vector<uint64_t> values;
  for (int i = 0; i < 2000; ++i) {
    values.push_back(random() >> (random() % 64));
    AppendVarint(out, values.back());
  }
  ByteReader reader(out);
  for (const uint64_t value : values) {
    const Result<uint64_t> got = reader.ReadVarint("value");
    ASSERT_TRUE(got.ok());
    ASSERT_EQ(*got, value);
  }
  EXPECT_EQ(reader.remaining(), 0);
}

TEST(BytesTest, RefusesMalformedVarints) {
  const auto fails = [](Buffer bytes) {
    ByteReader reader(bytes);
    const Result<uint64_t> got = reader.ReadVarint("the gap");
    return !got.ok() && got.status().code() == Code::kCorrupt && got.status().message().find("the gap") != std::string::npos;
  };
  EXPECT_TRUE(fails({}));
  EXPECT_TRUE(fails({0x80}));
  EXPECT_TRUE(fails({0x80, 0x00}));                                                        // needless zero
  EXPECT_TRUE(fails({0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x02}));        // 2^64
  EXPECT_TRUE(fails({0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x01}));  // eleven bytes
}

TEST(BytesTest, ReaderNeverPassesTheEnd) {
  const Buffer bytes = {1, 2, 3, 4, 5};
  ByteReader reader(bytes);
  EXPECT_EQ(*reader.ReadLe<uint32_t>("a number"), 0x04030201U);
  EXPECT_EQ(reader.position(), 4);
  const Result<uint16_t> past = reader.ReadLe<uint16_t>("a short");
  EXPECT_EQ(past.status().code(), Code::kCorrupt);
  EXPECT_EQ(past.status().message(), "truncated: the bytes end before a short");
  EXPECT_FALSE(reader.ReadBytes(UINT64_MAX, "a blob").ok());
  EXPECT_EQ(reader.position(), 4) << "a failed read must not move";
  EXPECT_THAT(*reader.ReadBytes(1, "a byte"), ElementsAre(5));
  EXPECT_TRUE(reader.ReadBytes(0, "nothing").ok());
}

// FIPS 180-4's own examples.
TEST(Sha256Test, Goldens) {
  EXPECT_EQ(ToHex(Sha256Of({})), "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  EXPECT_EQ(ToHex(Sha256Of(AsBytes("abc"))), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  Sha256 hash;
  hash.Update(AsBytes("a"));
  hash.Update({});
  hash.Update(AsBytes("bc"));
  EXPECT_EQ(hash.Finish(), Sha256Of(AsBytes("abc")));
}

TEST(Sha256Test, ParsesOnlyItsOwnText) {
  const Sha256Digest digest = Sha256Of(AsBytes("abc"));
  const std::string text = ToHex(digest);
  ASSERT_TRUE(ParseSha256(text).ok());
  EXPECT_EQ(*ParseSha256(text), digest);
  EXPECT_EQ(ParseSha256(text.substr(1)).status().code(), Code::kCorrupt);
  EXPECT_EQ(ParseSha256("B" + text.substr(1)).status().code(), Code::kCorrupt);
  EXPECT_EQ(ParseSha256("g" + text.substr(1)).status().code(), Code::kCorrupt);
}

}  // namespace
}  // namespace xorbit
