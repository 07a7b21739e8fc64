// Each of the sparse encoder's loops must give at every level what the portable one gives, on random input of random length.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <string>
#include <utility>
#include <vector>

#include "backend/cpu/sparse_kernels_simd.h"
#include "base/testing/seed.h"
#include "base/unit.h"
#include "codec/sparse_test_util.h"

namespace xorbit {
namespace {

class SparseKernelsTest : public testing::TestWithParam<CpuLevel> {
 protected:
  // Calls check(random) often, with the seed in the failure's message.
  template <typename Check>
  void ForRandom(Check&& check) {
    const uint64_t seed = TestSeed();
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    Random random(seed);
    for (int round = 0; round < 300; ++round) check(random);
  }
  const SparseKernels& tested() const { return SparseKernelsOf(GetParam()); }
  const SparseKernels& portable() const { return PortableSparseKernels(); }
};

// Ascending offsets from 0 whose gaps are mostly below 2^k, with k up to `max_bits`.
std::vector<uint32_t> RandomOffsets(Random& random, uint32_t count, uint32_t max_bits) {
  std::vector<uint32_t> offsets = {0};
  const uint64_t mean_bits = random() % (max_bits + 1);
  for (uint64_t at = 0; offsets.size() < count; offsets.push_back(static_cast<uint32_t>(at))) {
    at += 1 + random() % (uint64_t{1} << (random() % 8 == 0 ? random() % (max_bits + 1) : mean_bits));
    if (at > UINT32_MAX) break;
  }
  return offsets;
}

std::vector<uint8_t> RandomBytes(Random& random, size_t count) {
  std::vector<uint8_t> bytes(count);
  for (uint8_t& byte : bytes) byte = static_cast<uint8_t>(random());
  return bytes;
}

struct Gaps {
  std::vector<uint8_t> symbols;
  std::vector<uint8_t> bits;
  uint32_t varint_bytes;
  friend bool operator==(const Gaps&, const Gaps&) = default;
};

Gaps GapsBy(MakeGaps make_gaps, const std::vector<uint32_t>& offsets) {
  Gaps gaps{std::vector<uint8_t>(kMaxTileChanges), std::vector<uint8_t>(kGapBitsBytes), 0};
  GapCode code{gaps.symbols.data(), gaps.bits.data()};
  make_gaps(offsets.data(), static_cast<uint32_t>(offsets.size()), &code);
  gaps.symbols.resize(offsets.size());
  gaps.bits.resize(size_t{4} * code.bit_words);
  gaps.varint_bytes = code.varint_bytes;
  return gaps;
}

TEST_P(SparseKernelsTest, MakesTheSameGaps) {
  ForRandom([&](Random& random) {
    const auto offsets = RandomOffsets(random, 1 + static_cast<uint32_t>(random() % kMaxTileChanges), 32);
    EXPECT_EQ(GapsBy(tested().make_gaps, offsets), GapsBy(portable().make_gaps, offsets));
  });
}

TEST_P(SparseKernelsTest, FindsTheSameGapsInWindows) {
  ForRandom([&](Random& random) {
    constexpr size_t kRoom = kWindowElements + 16;
    const uint64_t stride = 1 + random() % 3000;
    std::vector<uint16_t> positions;
    for (uint64_t at = random() % stride; at < kWindowElements; at += 1 + random() % stride) {
      positions.push_back(static_cast<uint16_t>(at));
    }
    const auto count = static_cast<uint32_t>(positions.size());
    positions.resize(kRoom);
    std::vector<uint8_t> expected(kRoom);
    std::vector<uint8_t> symbols(kRoom);
    portable().window_gaps(positions.data(), count, expected.data());
    tested().window_gaps(positions.data(), count, symbols.data());
    for (uint32_t i = 1; i < count; ++i) ASSERT_EQ(symbols[i], expected[i]) << i << " of " << count;
  });
}

TEST_P(SparseKernelsTest, SplitsTheSamePlanesAndNothingMore) {
  ForRandom([&](Random& random) {
    const uint32_t unit_bytes = 1U << random() % 4;
    const auto count = static_cast<uint32_t>(random() % 300);
    const auto values = RandomBytes(random, size_t{count} * unit_bytes);
    std::vector<std::vector<uint8_t>> expected(kMaxPlanes, std::vector<uint8_t>(count + 1, 0xa5));
    std::vector<std::vector<uint8_t>> planes = expected;
    const auto split_by = [&](SplitPlanes split, std::vector<std::vector<uint8_t>>* target) {
      std::vector<uint8_t*> pointers;
      for (auto& plane : *target) pointers.push_back(plane.data());
      split(values.data(), unit_bytes, count, pointers.data());
    };
    split_by(portable().split_planes, &expected);
    split_by(tested().split_planes, &planes);
    EXPECT_EQ(planes, expected);
  });
}

TEST_P(SparseKernelsTest, WeighsTheSameAsElementByElement) {
  ForRandom([&](Random& random) {
    const uint32_t unit_bytes = 1U << random() % 4;
    const auto offsets = RandomOffsets(random, 1 + static_cast<uint32_t>(random() % 200), 20);
    const auto olds = RandomBytes(random, offsets.size() * unit_bytes);
    const auto xors = RandomBytes(random, offsets.size() * unit_bytes);
    const uint64_t first = random() % (uint64_t{1} << 40);
    const uint64_t key = random();
    ChangeDigest digest;
    tested().weigh_stretch(unit_bytes, {key, first * unit_bytes, offsets.size(), offsets.data(), olds.data(), xors.data()},
                           &digest);
    StateDigest before;
    StateDigest after;
    for (size_t i = 0; i < offsets.size(); ++i) {
      const uint64_t old_bits = UnitBits(olds.data() + i * unit_bytes, unit_bytes);
      const uint64_t new_bits = old_bits ^ UnitBits(xors.data() + i * unit_bytes, unit_bytes);
      before += DigestOfElement(key, unit_bytes, first + offsets[i], old_bits);
      after += DigestOfElement(key, unit_bytes, first + offsets[i], new_bits);
    }
    EXPECT_EQ(digest.before, before.lane0);
    EXPECT_EQ(digest.after, after.lane0);
    EXPECT_EQ(digest.change(), after - before);
  });
}

// States next to multiples of their symbol's frequency, where a quotient that is off by one shows.
std::array<uint32_t, kLanes> ProbingStates(Random& random, const EncodeTable& table, const std::vector<uint8_t>& symbols) {
  std::array<uint32_t, kLanes> states;
  for (uint32_t lane = 0; lane < kLanes; ++lane) {
    const uint64_t frequency = table.packed[symbols[lane]] & 0xffff;
    const uint64_t multiple = random() % (uint64_t{1} << (12 + random() % 21)) / frequency * frequency;
    states[lane] = static_cast<uint32_t>(std::clamp<uint64_t>(multiple - random() % 2, kStateFloor, UINT32_MAX));
  }
  return states;
}

TEST_P(SparseKernelsTest, CodesTheSameFromAnyState) {
  ForRandom([&](Random& random) {
    Histogram histogram{};
    for (uint64_t n = 1 + random() % 20; n > 0; --n) histogram[random() % kGapSymbols] += uint64_t{1} << random() % 16;
    const EncodeTable table = MakeEncodeTable(NormalizeHistogram(histogram));
    std::vector<uint8_t> symbols(size_t{2} * kLanes);
    for (uint8_t& symbol : symbols) {
      do symbol = static_cast<uint8_t>(random() % (kGapSymbols + 1));
      while (symbol != kNoGapSymbol && histogram[symbol] == 0);
    }
    const std::vector<uint8_t> last_group(symbols.begin() + kLanes, symbols.end());
    const auto states = ProbingStates(random, table, last_group);
    const auto code_by = [&](EncodeGroups encode_groups) {
      std::vector<uint16_t> words(size_t{4} * kLanes);
      TileEncode tile;
      tile.group_count = 2;
      tile.row_count = 1;
      tile.symbols[0] = symbols.data();
      tile.tables[0] = &table;
      tile.states = states;
      tile.words = words.data() + words.size();
      encode_groups(&tile);
      words.erase(words.begin(), words.begin() + (tile.words - words.data()));
      return std::pair(tile.states, words);
    };
    EXPECT_EQ(code_by(tested().encode_groups), code_by(portable().encode_groups));
  });
}

INSTANTIATE_TEST_SUITE_P(Levels, SparseKernelsTest, testing::ValuesIn(AvailableCpuLevels()),
                         [](const auto& level) { return std::string(NameOf(level.param)); });

}  // namespace
}  // namespace xorbit
