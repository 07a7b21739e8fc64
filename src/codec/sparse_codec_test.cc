// The sparse codec from end to end: round trips, the same bytes from any number of threads, and refusal of damage.
#include "codec/sparse_codec.h"

#include <gtest/gtest.h>

#include <set>

#include "base/testing/seed.h"
#include "codec/sparse_format.h"
#include "codec/sparse_test_util.h"

namespace xorbit {
namespace {

// What the records' digests must be, from the definition.
std::vector<std::pair<uint64_t, uint64_t>> ExpectedDigests(const SegmentMap& map, const std::vector<uint64_t>& keys,
                                                           const std::vector<ElementChange>& changes,
                                                           const SegmentImage& segment, StateDigest* total) {
  std::vector<std::pair<uint64_t, uint64_t>> digests;
  size_t at = 0;
  for (uint64_t i = 0; i < segment.record_count; ++i) {
    StateDigest before;
    StateDigest after;
    for (uint32_t c = 0; c <= segment.record<TileRecord>(i).count_minus_1; ++c, ++at) {
      const Run run = RunAt(map, changes[at].element);
      const uint64_t key = keys[run.tensor_index];
      before += DigestOfElement(key, map.unit_bytes(), run.tensor_element, changes[at].old_bits);
      after += DigestOfElement(key, map.unit_bytes(), run.tensor_element, changes[at].old_bits ^ changes[at].xor_bits);
    }
    digests.emplace_back(before.lane0, after.lane0);
    *total += after - before;
  }
  return digests;
}

EncodedSegment Encode(const SegmentMap& map, const std::vector<uint64_t>& keys, const std::vector<ElementChange>& changes,
                      bool has_values, const EncodeOptions& options = {}) {
  const ListSource source(map.unit_bytes(), map.element_count(), changes, has_values);
  return PortableSparseCodec()->Encode(map, keys, source, options).value();
}

// Encodes, decodes, and compares with the changes and with the definition of the digests.
SegmentImage CheckRoundTrip(const SegmentMap& map, const std::vector<uint64_t>& keys, const std::vector<ElementChange>& changes,
                            bool has_values) {
  const EncodedSegment encoded = Encode(map, keys, changes, has_values);
  SegmentImage segment(encoded);
  EXPECT_EQ(encoded.change_count, changes.size());
  EXPECT_EQ(encoded.cuts.size(), encoded.record_count);
  EXPECT_EQ(encoded.cuts.empty() ? 0 : encoded.cuts.back(), segment.body.size());
  const auto decoded = DecodeAll(*PortableSparseCodec(), map, segment.view());
  EXPECT_TRUE(decoded.has_value());
  if (!decoded) return segment;
  std::vector<std::pair<uint64_t, uint64_t>> expected;
  for (const ElementChange& change : changes) expected.emplace_back(change.element, change.xor_bits);
  EXPECT_EQ(decoded->changes, expected);
  StateDigest total;
  auto digests = ExpectedDigests(map, keys, changes, segment, &total);
  if (!has_values) {
    for (auto& [before, after] : digests) before = after = 0;
    total = {};
  }
  EXPECT_EQ(decoded->digests, digests);
  EXPECT_EQ(encoded.change, total);
  return segment;
}

TEST(SparseCodec, RoundTripsAtAllDensities) {
  for (const uint32_t unit_bytes : {1U, 2U, 4U, 8U}) {
    const uint64_t element_count = 3 * kWindowElements + 12345;
    const SegmentMap map = OneTensorMap(unit_bytes, element_count);
    const std::vector<uint64_t> keys = TensorKeysOf(OneTensorLayout(unit_bytes, element_count));
    Random random(unit_bytes);
    for (const uint64_t per_million : {0, 10, 850, 10000, 100000, 400000, 650000, 900000, 1000000}) {
      for (const bool one_bit : {false, true}) {
        SCOPED_TRACE(testing::Message() << "unit " << unit_bytes << " per million " << per_million << " one bit " << one_bit);
        const auto changes = UniformChanges(random, unit_bytes, element_count, per_million, one_bit);
        const SegmentImage segment = CheckRoundTrip(map, keys, changes, true);
        CheckRoundTrip(map, keys, changes, false);
        EXPECT_LE(segment.byte_count(), map.byte_count() + map.byte_count() / 100 + (64 << 10));
      }
    }
  }
}

TEST(SparseCodec, RoundTripsRandomSegments) {
  const uint64_t seed = TestSeed();
  SCOPED_TRACE(testing::Message() << "seed " << seed);
  Random random(seed);
  for (int round = 0; round < 40; ++round) {
    const Layout layout = RandomLayout(random, 40, 20000);
    for (const SegmentMap& map : RandomSegments(random, layout)) {
      // Stretches of very different densities, so that windows of all kinds meet.
      std::vector<ElementChange> changes;
      uint64_t per_million = 1000;
      const bool one_bit = random() % 2 == 0;
      for (uint64_t e = 0; e < map.element_count(); ++e) {
        if (random() % 4096 == 0) per_million = uint64_t{1} << random() % 21;
        if (random() % 1000000 < per_million) changes.push_back(RandomChange(random, map.unit_bytes(), e, one_bit));
      }
      CheckRoundTrip(map, TensorKeysOf(layout), changes, random() % 2 == 0);
    }
  }
}

TEST(SparseCodec, UsesEveryMode) {
  Random random(7);
  const uint64_t element_count = 8 * kWindowElements;
  const SegmentMap map = OneTensorMap(2, element_count);
  const std::vector<uint64_t> keys = TensorKeysOf(OneTensorLayout(2, element_count));
  std::set<uint8_t> modes;
  const auto run = [&](const std::vector<ElementChange>& changes) {
    const SegmentImage segment = CheckRoundTrip(map, keys, changes, true);
    for (uint64_t i = 0; i < segment.record_count; ++i) modes.insert(segment.record<TileRecord>(i).mode);
  };
  run(UniformChanges(random, 2, element_count, 10000, true));                       // sparse
  run(UniformChanges(random, 2, element_count, 990000, true));                      // dense
  run(UniformChanges(random, 2, element_count, 1000000, false));                    // raw
  run({RandomChange(random, 2, 1000, true), RandomChange(random, 2, 1100, true)});  // plain
  EXPECT_EQ(modes, (std::set<uint8_t>{0, 1, 2, 3}));
}

TEST(SparseCodec, BytesDependOnNeitherCacheNorThreads) {
  Random random(11);
  const uint64_t element_count = 100 * kWindowElements + 77;
  const SegmentMap map = OneTensorMap(2, element_count);
  const std::vector<uint64_t> keys = TensorKeysOf(OneTensorLayout(2, element_count));
  std::vector<ElementChange> changes;
  for (uint64_t w = 0; w * kWindowElements < element_count; ++w) {
    const uint64_t step = uint64_t{1} << w % 14;  // some windows dense, some nearly empty
    for (uint64_t e = 0; e < WindowElementsAt(element_count, w); e += 1 + random() % step) {
      changes.push_back(RandomChange(random, 2, w * kWindowElements + e, true));
    }
  }
  const SegmentImage reference(Encode(map, keys, changes, true));
  for (const int threads : {1, 2, 5}) {
    for (const uint64_t cache_bytes : {uint64_t{0}, uint64_t{2} << 20, uint64_t{1} << 30}) {
      const SegmentImage other(Encode(map, keys, changes, true, {.threads = threads, .change_cache_bytes = cache_bytes}));
      EXPECT_EQ(reference.tables, other.tables);
      EXPECT_EQ(reference.records, other.records);
      EXPECT_EQ(reference.body, other.body);
    }
  }
}

// Differences of the words 0 to 3 of a 64-byte block whose contributions to lane 0 cancel, found by lattice reduction: block
// factors are odd and common to all four, so this holds in every block of every tensor.
constexpr std::array<int64_t, 4> kCancelling = {18267, -11113, 43876, 14156};

TEST(SparseCodec, CutsTilesWhoseDigestsWouldNotChange) {
  uint64_t sum = 0;
  for (size_t k = 0; k < 4; ++k) sum += kDigestWordFactors[0][k] * static_cast<uint64_t>(kCancelling[k]);
  ASSERT_EQ(sum, 0U);
  const uint64_t element_count = 1000;
  const SegmentMap map = OneTensorMap(4, element_count);
  std::vector<ElementChange> changes;
  for (const uint64_t block : {3U, 9U}) {
    for (size_t k = 0; k < 4; ++k) {
      const uint64_t old_bits = uint64_t{1} << 31;
      changes.push_back({16 * block + k, old_bits, old_bits ^ (old_bits + static_cast<uint64_t>(kCancelling[k]))});
    }
  }
  const SegmentImage segment = CheckRoundTrip(map, TensorKeysOf(OneTensorLayout(4, element_count)), changes, true);
  // Eight changes: the sum and both halves cancel, their halves do not.
  ASSERT_EQ(segment.record_count, 4U);
  for (uint64_t i = 0; i < 4; ++i) {
    EXPECT_EQ(segment.record<TileRecord>(i).count_minus_1, 1U);
    EXPECT_NE(segment.record<TileRecord>(i).before, segment.record<TileRecord>(i).after);
  }
}

// Nothing is left to cut where one 8-byte element's words cancel: the tile says so by equal digests, and is read.
TEST(SparseCodec, KeepsALoneChangeThatItsDigestDoesNotShow) {
  const Layout layout = OneTensorLayout(8, 1000);
  const SegmentMap map = OneTensorMap(8, 1000);
  const std::vector<uint64_t> keys = TensorKeysOf(layout);
  SegmentImage lone = CheckRoundTrip(map, keys, {HiddenChange(keys[0], 700)}, true);
  ASSERT_EQ(lone.record_count, 1U);
  EXPECT_EQ(lone.record<TileRecord>(0).before, lone.record<TileRecord>(0).after);
  // Two of them are cut apart; a tile of two changes that shows nothing is refused.
  SegmentImage two = CheckRoundTrip(map, keys, {HiddenChange(keys[0], 7), HiddenChange(keys[0], 700)}, true);
  EXPECT_EQ(two.record_count, 2U);
  SegmentImage shown = CheckRoundTrip(map, keys, {{7, 0, 1}, {700, 0, 1}}, true);
  ASSERT_EQ(shown.record_count, 1U);
  TileRecord record = shown.record<TileRecord>(0);
  record.after = record.before;
  shown.set_record(0, record);
  EXPECT_FALSE(PortableSparseCodec()->Open(map, shown.view()).ok());
}

TEST(SparseCodec, EndsTilesBeforeTheirSpanOutgrows32Bits) {
  const uint64_t element_count = (uint64_t{3} << 32) + 5;
  const SegmentMap map = OneTensorMap(1, element_count);
  const std::vector<ElementChange> changes = {
      {7, 1, 2}, {uint64_t{1} << 32, 3, 4}, {(uint64_t{2} << 32) + 1, 5, 6}, {element_count - 1, 7, 8}};
  const SegmentImage segment = CheckRoundTrip(map, TensorKeysOf(OneTensorLayout(1, element_count)), changes, true);
  EXPECT_EQ(segment.record_count, 4U);
}

TEST(SparseCodec, NearsTheEntropyAtTheReferenceDensity) {
  Random random(13);
  const uint64_t element_count = uint64_t{8} << 20;
  const SegmentMap map = OneTensorMap(1, element_count);
  const auto changes = UniformChanges(random, 1, element_count, 850, true);
  const SegmentImage segment(Encode(map, TensorKeysOf(OneTensorLayout(1, element_count)), changes, true));
  // -p log2 p - (1 - p) log2 (1 - p) bits an element at p = 0.00085, and three bits a change. The small segment carries its
  // tables.
  const double entropy_bits = static_cast<double>(changes.size()) * (11.6440 + 3.0);
  EXPECT_LE(static_cast<double>(segment.byte_count()) * 8, entropy_bits * 1.03);
}

}  // namespace
}  // namespace xorbit
