// Every kernel of every level that this machine has, against the plainest loop there is.
#include "backend/cpu/kernels.h"

#include <gtest/gtest.h>

#include <cstring>
#include <random>
#include <string>

#include "backend/cpu/digest_scan.h"
#include "base/bytes.h"
#include "base/testing/seed.h"

namespace xorbit {
namespace {

using Random = std::mt19937_64;

class KernelsTest : public testing::TestWithParam<CpuLevel> {
 protected:
  const CpuKernels& kernels() const { return KernelsOf(GetParam()); }
  const uint64_t seed_ = TestSeed();
  Random random_{seed_};
};

Buffer RandomBytes(Random& random, size_t count) {
  Buffer bytes(count);
  for (uint8_t& byte : bytes) byte = static_cast<uint8_t>(random());
  return bytes;
}

// The stretch ends where an allocation ends, so that ASan sees reads past it.
void CheckDiff(DiffKernel diff, Random& random, uint32_t unit_bytes, uint32_t element_count, uint64_t per_mille) {
  const size_t byte_count = size_t{element_count} * unit_bytes;
  const size_t old_shift = random() % 9;
  const size_t new_shift = random() % 9;
  const Buffer old_bytes = RandomBytes(random, old_shift + byte_count);
  Buffer new_bytes(new_shift + byte_count);
  if (byte_count > 0) std::memcpy(new_bytes.data() + new_shift, old_bytes.data() + old_shift, byte_count);
  Buffer positions;
  Buffer xors;
  Buffer olds;
  const auto first_position = static_cast<uint32_t>(random() % (65536 - element_count + 1));
  for (uint32_t i = 0; i < element_count; ++i) {
    if (random() % 1000 >= per_mille) continue;
    const size_t at = size_t{i} * unit_bytes;
    new_bytes[new_shift + at + random() % unit_bytes] ^= static_cast<uint8_t>(1 + random() % 255);
    AppendLe<uint16_t>(positions, static_cast<uint16_t>(first_position + i));
    AppendBytes(olds, ConstBytes(old_bytes).subspan(old_shift + at, unit_bytes));
    for (size_t j = 0; j < unit_bytes; ++j) xors.push_back(old_bytes[old_shift + at + j] ^ new_bytes[new_shift + at + j]);
  }
  std::vector<uint16_t> out_positions(element_count + 64);
  Buffer out_xors(byte_count + size_t{64} * unit_bytes);
  Buffer out_olds(out_xors.size());
  const uint32_t count =
      diff(old_bytes.data() + old_shift, new_bytes.data() + new_shift, element_count, first_position,
           static_cast<uint32_t>(random() % 200'000), {out_positions.data(), out_xors.data(), out_olds.data()});
  ASSERT_EQ(count, positions.size() / 2);
  if (count == 0) return;
  ASSERT_EQ(std::memcmp(out_positions.data(), positions.data(), positions.size()), 0);
  ASSERT_EQ(std::memcmp(out_xors.data(), xors.data(), xors.size()), 0);
  ASSERT_EQ(std::memcmp(out_olds.data(), olds.data(), olds.size()), 0);
}

TEST_P(KernelsTest, DiffListsExactlyTheChangedElements) {
  SCOPED_TRACE("seed " + std::to_string(seed_));
  for (uint32_t log2 = 0; log2 < 4; ++log2) {
    for (const uint64_t per_mille : {0, 1, 10, 100, 500, 1000}) {
      for (int round = 0; round < 30; ++round) {
        const auto element_count = static_cast<uint32_t>(random_() % (round % 2 == 0 ? 200 : 5000));
        SCOPED_TRACE("unit " + std::to_string(1 << log2) + ", " + std::to_string(element_count) + " elements");
        ASSERT_NO_FATAL_FAILURE(CheckDiff(kernels().diff[log2], random_, 1U << log2, element_count, per_mille));
      }
    }
    ASSERT_NO_FATAL_FAILURE(CheckDiff(kernels().diff[log2], random_, 1U << log2, 65536, 1000));
  }
}

TEST_P(KernelsTest, DigestOfAnyRangeIsThatOfTheDefinition) {
  SCOPED_TRACE("seed " + std::to_string(seed_));
  for (int round = 0; round < 200; ++round) {
    const Buffer bytes = RandomBytes(random_, random_() % (round % 2 == 0 ? 150 : 20000));
    const size_t shift = bytes.empty() ? 0 : random_() % std::min<size_t>(bytes.size(), 70);
    const ConstBytes range = ConstBytes(bytes).subspan(shift);
    const uint64_t key = random_();
    const uint64_t offset_bytes = random_() % (uint64_t{1} << 40);
    DigestSums sums;
    AddRange(kernels(), key, offset_bytes, range, &sums);
    ASSERT_EQ(sums.Finish(), DigestOfRange(key, offset_bytes, range)) << range.size() << " bytes at " << offset_bytes;
  }
}

TEST_P(KernelsTest, DigestOfExtremeWordsAndManyBlocksWrapsAsDefined) {
  // All ones is where lost carries would show.
  const Buffer ones(64 * 5000, 0xff);
  DigestSums sums;
  kernels().digest_blocks(~uint64_t{0}, 12345, ones.data(), 5000, &sums);
  EXPECT_EQ(sums.Finish(), DigestOfRange(~uint64_t{0}, uint64_t{12345} * 64, ones));
}

TEST_P(KernelsTest, SumAddsEveryWord) {
  SCOPED_TRACE("seed " + std::to_string(seed_));
  for (int round = 0; round < 50; ++round) {
    const Buffer bytes = RandomBytes(random_, random_() % 3000);
    uint64_t expected = 0;
    for (size_t i = 0; i < bytes.size(); ++i) expected += uint64_t{bytes[i]} << (8 * (i % 8));
    ASSERT_EQ(kernels().sum(bytes.data(), bytes.size()), expected);
  }
}

INSTANTIATE_TEST_SUITE_P(Levels, KernelsTest, testing::ValuesIn(AvailableCpuLevels()),
                         [](const auto& level) { return std::string(NameOf(level.param)); });

}  // namespace
}  // namespace xorbit
