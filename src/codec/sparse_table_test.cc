// Frequency tables: integer arithmetic that sums to the table size, and refusal of tables that do not.
#include "codec/sparse_table.h"

#include <gtest/gtest.h>

#include <numeric>
#include <random>

#include "base/testing/seed.h"
#include "codec/sparse_kernels.h"
#include "codec/sparse_table_set.h"

namespace xorbit {
namespace {

uint32_t SumOf(const Frequencies& frequencies) { return std::accumulate(frequencies.begin(), frequencies.end(), 0U); }

Histogram RandomHistogram(std::mt19937_64& random) {
  Histogram histogram{};
  const uint64_t symbols = 1 + random() % 256;
  for (uint64_t i = 0; i < symbols; ++i) histogram[random() % 256] = random() >> random() % 64;
  histogram[random() % 256] |= 1;
  return histogram;
}

TEST(SparseTable, GapSymbolsAndRawBitsCoverEveryGapOnce) {
  uint64_t next = 0;
  for (uint32_t symbol = 0; symbol < kGapSymbols; ++symbol) {
    EXPECT_EQ(GapBaseOf(symbol), next);
    EXPECT_EQ(GapSymbolOf(GapBaseOf(symbol)), symbol);
    next += uint64_t{1} << GapBitCountOf(symbol);
    EXPECT_EQ(GapSymbolOf(static_cast<uint32_t>(next - 1)), symbol);
  }
  EXPECT_EQ(next, uint64_t{1} << 32);
}

TEST(SparseTable, NormalizesAnyHistogram) {
  const uint64_t seed = TestSeed();
  SCOPED_TRACE(testing::Message() << "seed " << seed);
  std::mt19937_64 random(seed);
  for (int round = 0; round < 500; ++round) {
    const Histogram histogram = RandomHistogram(random);
    const Frequencies frequencies = NormalizeHistogram(histogram);
    EXPECT_EQ(SumOf(frequencies), kFrequencySum);
    for (size_t s = 0; s < histogram.size(); ++s) EXPECT_EQ(frequencies[s] > 0, histogram[s] > 0);
  }
}

TEST(SparseTable, NormalizesKnownHistograms) {
  Histogram histogram{};
  histogram[3] = 7;
  EXPECT_EQ(NormalizeHistogram(histogram)[3], 4096);
  histogram[5] = 7;
  histogram[9] = 7;
  const Frequencies thirds = NormalizeHistogram(histogram);
  EXPECT_EQ(thirds[3], 1366);  // the lower symbol first
  EXPECT_EQ(thirds[5], 1365);
  EXPECT_EQ(thirds[9], 1365);
  histogram = {};
  histogram.fill(1);
  histogram[0] = uint64_t{1} << 60;
  const Frequencies lopsided = NormalizeHistogram(histogram);
  EXPECT_EQ(lopsided[0], 4096 - 255);
  EXPECT_EQ(lopsided[255], 1);
}

TEST(SparseTable, CostIsWithinRoundingOfTheEntropyBound) {
  Histogram histogram{};
  for (size_t s = 0; s < 8; ++s) histogram[s] = 1000;
  EXPECT_EQ(CodedCost16(histogram, NormalizeHistogram(histogram)), uint64_t{8000} * 3 << 16);
}

TEST(SparseTable, SerializesAndRefusesWhatItWouldNotWrite) {
  const uint64_t seed = TestSeed();
  SCOPED_TRACE(testing::Message() << "seed " << seed);
  std::mt19937_64 random(seed);
  for (int round = 0; round < 300; ++round) {
    const Frequencies frequencies = NormalizeHistogram(RandomHistogram(random));
    Buffer bytes;
    AppendFrequencies(bytes, frequencies, kValueSymbols);
    ByteReader reader(bytes);
    EXPECT_EQ(ReadFrequencies(reader, kValueSymbols).value(), frequencies);
    EXPECT_EQ(reader.remaining(), 0U);
    // Damaged bytes are refused, or are the only way to write what they mean.
    bytes[random() % bytes.size()] ^= static_cast<uint8_t>(1U << random() % 8);
    ByteReader damaged(bytes);
    const auto other = ReadFrequencies(damaged, kValueSymbols);
    if (!other.ok()) continue;
    EXPECT_EQ(SumOf(*other), kFrequencySum);
    Buffer again;
    AppendFrequencies(again, *other, kValueSymbols);
    EXPECT_EQ(again, Buffer(bytes.begin(), bytes.begin() + static_cast<ptrdiff_t>(damaged.position())));
  }
}

TEST(SparseTable, RefusesTableSetsThatContradictThemselves) {
  const auto parse = [](Buffer bytes) { return ParseTables(bytes, 1).ok(); };
  EXPECT_TRUE(parse({}));
  EXPECT_TRUE(parse({2, 1, 0, 0, 1, 127}));               // gaps of one symbol, raw plane
  EXPECT_FALSE(parse({2, 0, 0, 0, 1, 127}));              // gaps without planes
  EXPECT_FALSE(parse({0, 1, 0}));                         // planes without gaps
  EXPECT_FALSE(parse({1, 1, 0}));                         // raw gaps
  EXPECT_FALSE(parse({0, 0, 0}));                         // nothing
  EXPECT_FALSE(parse({3, 1, 0}));                         // unknown kind
  EXPECT_FALSE(parse({2, 1, 0, 0, 1, 127, 0}));           // bytes after the last table
  EXPECT_FALSE(parse({2, 1, 0, 0, 0, 1, 127}));           // an empty run
  EXPECT_FALSE(parse({2, 1, 0, 128, 1}));                 // no symbols
  EXPECT_FALSE(parse({2, 1, 0, 0, 2, 126, 0xff, 0x1f}));  // 4096 for the first of two symbols
  EXPECT_TRUE(parse({2, 1, 0, 0, 2, 126, 0xfe, 0x1f}));   // 4095
}

TEST(SparseTable, EncoderDividesExactly) {
  std::mt19937_64 random(5);
  for (uint32_t frequency = 1; frequency <= kFrequencySum; ++frequency) {
    Frequencies frequencies{};
    frequencies[0] = static_cast<uint16_t>(frequency);
    if (frequency < kFrequencySum) frequencies[1] = static_cast<uint16_t>(kFrequencySum - frequency);
    const EncodeTable table = MakeEncodeTable(frequencies);
    const uint64_t limit = std::min<uint64_t>(uint64_t{frequency} << 20, uint64_t{1} << 32);
    for (const uint64_t x :
         {limit - 1, limit - frequency, uint64_t{kStateFloor}, kStateFloor + random() % (limit - kStateFloor)}) {
      EXPECT_EQ(x * table.inverse[0] >> kInverseShift, x / frequency) << x << " / " << frequency;
    }
  }
}

}  // namespace
}  // namespace xorbit
