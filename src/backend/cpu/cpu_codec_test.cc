// The SIMD codec paths must give the bytes and the changes of the portable one, and refuse what it refuses.
#include "backend/cpu/cpu_codec.h"

#include <gtest/gtest.h>

#include "base/testing/seed.h"
#include "codec/sparse_codec.h"
#include "codec/sparse_test_util.h"

namespace xorbit {
namespace {

std::vector<const Codec*> SparseCodecs() {
  std::vector<const Codec*> codecs;
  for (const CpuLevel level : AvailableCpuLevels()) codecs.push_back(CpuCodec(CodecId::kSparse, level));
  return codecs;
}

// Changes of one segment at a density that itself varies, so that gaps of all lengths and windows of all kinds occur.
std::vector<ElementChange> MixedChanges(Random& random, uint32_t unit_bytes, uint64_t element_count) {
  std::vector<ElementChange> changes;
  const bool one_bit = random() % 2 == 0;
  uint64_t mean_gap = 1;
  for (uint64_t e = random() % 100; e < element_count; e += 1 + random() % mean_gap) {
    if (random() % 3000 == 0) mean_gap = uint64_t{1} << random() % 16;
    changes.push_back(RandomChange(random, unit_bytes, e, one_bit));
  }
  return changes;
}

SegmentImage Encode(const Codec& codec, uint32_t unit_bytes, uint64_t element_count,
                    const std::vector<ElementChange>& changes) {
  const ListSource source(unit_bytes, element_count, changes, true);
  const SegmentMap map = OneTensorMap(unit_bytes, element_count);
  return SegmentImage(codec.Encode(map, TensorKeysOf(OneTensorLayout(unit_bytes, element_count)), source, {}).value());
}

// All levels must refuse alike, or decode alike. Returns what they agree on.
std::optional<DecodedSegment> DecodeByAll(const SegmentMap& map, const EncodedSegmentView& view) {
  const auto expected = DecodeAll(*PortableSparseCodec(), map, view);
  for (const Codec* codec : SparseCodecs()) EXPECT_EQ(DecodeAll(*codec, map, view), expected);
  return expected;
}

TEST(CpuCodec, FindsEveryCodec) {
  for (const Codec* codec : AllCodecs()) {
    for (const CpuLevel level : AvailableCpuLevels()) EXPECT_EQ(CpuCodec(codec->id(), level)->id(), codec->id());
  }
  EXPECT_EQ(CpuCodec(static_cast<CodecId>(99)), nullptr);
}

TEST(CpuCodec, LevelsWriteTheSameBytesAndReadThem) {
  const uint64_t seed = TestSeed();
  SCOPED_TRACE(testing::Message() << "seed " << seed);
  Random random(seed);
  for (int round = 0; round < 24; ++round) {
    const uint32_t unit_bytes = 1U << round % 4;
    const uint64_t element_count = 1 + random() % (6 * kWindowElements);
    const auto changes = MixedChanges(random, unit_bytes, element_count);
    const SegmentImage reference = Encode(*PortableSparseCodec(), unit_bytes, element_count, changes);
    for (const Codec* codec : SparseCodecs()) {
      const SegmentImage other = Encode(*codec, unit_bytes, element_count, changes);
      EXPECT_EQ(reference.tables, other.tables);
      EXPECT_EQ(reference.records, other.records);
      EXPECT_EQ(reference.body, other.body);
    }
    const auto decoded = DecodeByAll(OneTensorMap(unit_bytes, element_count), reference.view());
    ASSERT_TRUE(decoded.has_value());
    ASSERT_EQ(decoded->changes.size(), changes.size());
    for (size_t i = 0; i < changes.size(); ++i) {
      ASSERT_EQ(decoded->changes[i], std::make_pair(changes[i].element, changes[i].xor_bits));
    }
  }
}

TEST(CpuCodec, LevelsReadGapsOfAllLengths) {
  Random random(3);
  const uint64_t element_count = uint64_t{1} << 33;
  std::vector<ElementChange> changes;
  for (uint64_t e = 0; e < element_count; e += 1 + random() % (uint64_t{1} << random() % 29)) {
    changes.push_back(RandomChange(random, 1, e, true));
  }
  const SegmentImage segment = Encode(*CpuCodec(CodecId::kSparse, BestCpuLevel()), 1, element_count, changes);
  const auto decoded = DecodeByAll(OneTensorMap(1, element_count), segment.view());
  ASSERT_TRUE(decoded.has_value());
  EXPECT_EQ(decoded->changes.size(), changes.size());
}

TEST(CpuCodec, LevelsAgreeOnDamagedBytes) {
  const uint64_t seed = TestSeed();
  SCOPED_TRACE(testing::Message() << "seed " << seed);
  Random random(seed);
  uint64_t accepted = 0;
  for (int round = 0; round < 400; ++round) {
    const uint32_t unit_bytes = 1U << round % 4;
    const uint64_t element_count = 1 + random() % kWindowElements;
    const auto changes = MixedChanges(random, unit_bytes, element_count);
    SegmentImage segment = Encode(*PortableSparseCodec(), unit_bytes, element_count, changes);
    const SegmentMap map = OneTensorMap(unit_bytes, element_count);
    for (int flip = 0; flip < 20; ++flip) {
      SegmentImage damaged = segment;
      Buffer* const section = std::array{&damaged.tables, &damaged.records, &damaged.body}[random() % 3];
      for (uint64_t n = 1 + random() % 3; n > 0 && !section->empty(); --n) {
        (*section)[random() % section->size()] ^= static_cast<uint8_t>(1U << random() % 8);
      }
      accepted += DecodeByAll(map, damaged.view()).has_value() ? 1 : 0;
    }
  }
  EXPECT_GT(accepted, 0U);  // damage to digests is for the apply to find
}

}  // namespace
}  // namespace xorbit
