// The worked example of docs/formats/state-digest.md, and the properties on which everything above relies: elements and ranges
// add up, and any change within a word shows in both lanes.
#include "change/state_digest.h"

#include <gtest/gtest.h>

#include <numeric>
#include <random>

#include "base/testing/seed.h"
#include "base/unit.h"

namespace xorbit {
namespace {

Buffer ExampleBytes() {
  Buffer bytes(70);
  std::iota(bytes.begin(), bytes.end(), uint8_t{0});
  return bytes;
}

TEST(StateDigestTest, FactorsOfTheWorkedExample) {
  EXPECT_EQ(kDigestWordFactors[0][0], 0x62213d2ac3718261);
  EXPECT_EQ(kDigestWordFactors[1][0], 0xfab119be9d1b64f9);
  const uint64_t key = TensorKeyOf("example");
  EXPECT_EQ(key, 0xe9490787825b85d9);
  EXPECT_EQ(BlockFactorsOf(key, 0).lane0, 0xfabec53cd64916c3);
  EXPECT_EQ(BlockFactorsOf(key, 0).lane1, 0xd64916c3fabec53d);
  EXPECT_EQ(BlockFactorsOf(key, 1).lane0, 0xb513792d077b8b7d);
  EXPECT_EQ(BlockFactorsOf(key, 1).lane1, 0x077b8b7db513792d);
}

TEST(StateDigestTest, DigestsOfTheWorkedExample) {
  const uint64_t key = TensorKeyOf("example");
  Buffer bytes = ExampleBytes();
  EXPECT_EQ(ToText(DigestOfRange(key, 0, ConstBytes(bytes).first(64))), "9e6940e73c6410d0bfa12b61460846b0");
  const StateDigest before = DigestOfRange(key, 0, bytes);
  EXPECT_EQ(ToText(before), "36bf7d1e483de66c025b6d11035c9a24");
  const StateDigest change = DigestOfElement(key, 2, 33, 0x4343) - DigestOfElement(key, 2, 33, 0x4342);
  EXPECT_EQ(ToText(change), "dc275bd2545d000026c51c0570c50000");
  bytes[66] = 0x43;
  EXPECT_EQ(ToText(DigestOfRange(key, 0, bytes)), "12e6d8f09c9ae66c2920891674219a24");
  EXPECT_EQ(before + change, DigestOfRange(key, 0, bytes));
}

TEST(StateDigestTest, ElementsOfEveryUnitAddUpToTheirRange) {
  const uint64_t seed = TestSeed();
  SCOPED_TRACE("seed " + std::to_string(seed));
  std::mt19937_64 random(seed);
  Buffer bytes(200);
  for (uint8_t& byte : bytes) byte = static_cast<uint8_t>(random());
  const uint64_t key = random();
  for (uint32_t unit_bytes = 1; unit_bytes <= 8; unit_bytes *= 2) {
    StateDigest sum;
    for (uint64_t i = 0; i < bytes.size() / unit_bytes; ++i) {
      sum += DigestOfElement(key, unit_bytes, i, UnitBits(bytes.data() + i * unit_bytes, unit_bytes));
    }
    EXPECT_EQ(sum, DigestOfRange(key, 0, bytes)) << unit_bytes;
  }
}

TEST(StateDigestTest, EveryBitOfABlockShowsInBothLanes) {
  const uint64_t key = TensorKeyOf("example");
  const Buffer zeros(64);
  for (uint32_t bit = 0; bit < 512; ++bit) {
    Buffer bytes = zeros;
    bytes[bit / 8] = static_cast<uint8_t>(1 << (bit % 8));
    const StateDigest digest = DigestOfRange(key, 640, bytes);
    EXPECT_NE(digest.lane0, 0) << bit;
    EXPECT_NE(digest.lane1, 0) << bit;
  }
}

TEST(StateDigestTest, TextIsReadBackAndNothingElseIs) {
  const std::string text = "36bf7d1e483de66c025b6d11035c9a24";
  EXPECT_EQ(ToText(ParseStateDigest(text).value()), text);
  EXPECT_EQ(ParseStateDigest(text.substr(1)).status().code(), Code::kCorrupt);
  EXPECT_EQ(ParseStateDigest(text + "0").status().code(), Code::kCorrupt);
  EXPECT_EQ(ParseStateDigest("36BF7d1e483de66c025b6d11035c9a24").status().code(), Code::kCorrupt);
  EXPECT_EQ(ParseStateDigest("g6bf7d1e483de66c025b6d11035c9a24").status().code(), Code::kCorrupt);
}

}  // namespace
}  // namespace xorbit
