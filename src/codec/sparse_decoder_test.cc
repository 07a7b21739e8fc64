// Segments that nobody should accept, and damage that nobody should overlook.
#include "codec/sparse_decoder.h"

#include <gtest/gtest.h>

#include "base/testing/seed.h"
#include "codec/sparse_codec.h"
#include "codec/sparse_format.h"
#include "codec/sparse_test_util.h"

namespace xorbit {
namespace {

constexpr uint64_t kElements = 3 * kWindowElements + 100;

SegmentImage Encode(uint32_t unit_bytes, const std::vector<ElementChange>& changes, bool has_values) {
  const ListSource source(unit_bytes, kElements, changes, has_values);
  const std::vector<uint64_t> keys = TensorKeysOf(OneTensorLayout(unit_bytes, kElements));
  return SegmentImage(PortableSparseCodec()->Encode(OneTensorMap(unit_bytes, kElements), keys, source, {}).value());
}

std::optional<DecodedSegment> Decode(uint32_t unit_bytes, const SegmentImage& segment) {
  return DecodeAll(*PortableSparseCodec(), OneTensorMap(unit_bytes, kElements), segment.view());
}

// Sparse tiles, a dense window and a raw one (random values in every element).
std::vector<ElementChange> EveryKindOfWindow(Random& random, uint32_t unit_bytes) {
  std::vector<ElementChange> changes;
  for (uint64_t e = random() % 90; e < kWindowElements; e += 1 + random() % 90) {
    changes.push_back(RandomChange(random, unit_bytes, e, true));
  }
  for (uint64_t e = kWindowElements; e < kWindowElements + 300; ++e)
    changes.push_back(RandomChange(random, unit_bytes, e, false));
  for (uint64_t e = 3 * kWindowElements; e < kElements; ++e) {
    if (random() % 8 != 0) changes.push_back(RandomChange(random, unit_bytes, e, true));
  }
  return changes;
}

TEST(SparseDecoder, NoticesEveryFlippedByteOfRecordsAndBody) {
  const uint64_t seed = TestSeed();
  SCOPED_TRACE(testing::Message() << "seed " << seed);
  Random random(seed);
  for (const uint32_t unit_bytes : {1U, 2U, 4U, 8U}) {
    const SegmentImage segment = Encode(unit_bytes, EveryKindOfWindow(random, unit_bytes), true);
    const auto expected = Decode(unit_bytes, segment);
    ASSERT_TRUE(expected.has_value());
    for (Buffer SegmentImage::*const section : {&SegmentImage::tables, &SegmentImage::records, &SegmentImage::body}) {
      const size_t size = (segment.*section).size();
      // Every byte of a small section; of a large one, some.
      for (size_t at = random() % (1 + size / 400); at < size; at += 1 + size / 400) {
        SegmentImage damaged = segment;
        (damaged.*section)[at] ^= static_cast<uint8_t>(1U << random() % 8);
        // A table may name a symbol that no tile uses (the gap before a tile's first change); then the head's hash is what
        // notices.
        if (section == &SegmentImage::tables) {
          Decode(unit_bytes, damaged);
        } else {
          EXPECT_NE(Decode(unit_bytes, damaged), expected) << "byte " << at;
        }
      }
      for (size_t cut = 1; cut <= std::min<size_t>(size, 9); ++cut) {
        SegmentImage shorter = segment;
        (shorter.*section).resize(size - cut);
        EXPECT_EQ(Decode(unit_bytes, shorter), std::nullopt);
      }
      SegmentImage longer = segment;
      (longer.*section).resize(size + 4);
      EXPECT_EQ(Decode(unit_bytes, longer), std::nullopt);
    }
  }
}

TEST(SparseDecoder, RefusesRecordsThatDoNotHoldTogether) {
  Random random(3);
  const SegmentImage segment = Encode(2, UniformChanges(random, 2, kElements, 50000, true), true);
  ASSERT_GT(segment.record_count, 2U);
  ASSERT_TRUE(Decode(2, segment).has_value());
  const auto refuses = [&](uint64_t index, auto&& damage) {
    SegmentImage damaged = segment;
    TileRecord record = damaged.record<TileRecord>(index);
    damage(record);
    damaged.set_record(index, record);
    return !PortableSparseCodec()->Open(OneTensorMap(2, kElements), damaged.view()).ok();
  };
  const uint64_t last = segment.record_count - 1;
  EXPECT_TRUE(refuses(1, [](TileRecord& record) { record.mode = 4; }));
  EXPECT_TRUE(refuses(1, [](TileRecord& record) { record.mode = 1; }));  // without dense tables
  EXPECT_TRUE(refuses(1, [](TileRecord& record) { record.table_set = 1; }));
  EXPECT_TRUE(refuses(1, [](TileRecord& record) { record.count_minus_1 = 4096; }));
  EXPECT_TRUE(refuses(1, [](TileRecord& record) { --record.count_minus_1; }));
  EXPECT_TRUE(refuses(1, [](TileRecord& record) { record.span = record.count_minus_1 - 1U; }));
  EXPECT_TRUE(refuses(1, [](TileRecord& record) { record.after = record.before; }));
  EXPECT_TRUE(refuses(
      1, [&](TileRecord& record) { record.first = segment.record<TileRecord>(0).first + segment.record<TileRecord>(0).span; }));
  EXPECT_TRUE(refuses(1, [](TileRecord& record) { record.offset = 0; }));
  EXPECT_TRUE(refuses(1, [](TileRecord& record) { record.offset += 2; }));
  EXPECT_TRUE(refuses(0, [](TileRecord& record) { record.offset = 4; }));
  EXPECT_TRUE(refuses(last, [](TileRecord& record) { record.first = UINT64_MAX; }));
  EXPECT_TRUE(refuses(last, [](TileRecord& record) { record.span = UINT32_MAX; }));
  EXPECT_TRUE(refuses(last, [&](TileRecord& record) { record.offset = (segment.body.size() + 3) / 4 * 4; }));
  EXPECT_TRUE(refuses(last, [](TileRecord& record) { record.offset = UINT64_MAX - 3; }));
}

TEST(SparseDecoder, RefusesDigestsInASegmentWithout) {
  Random random(4);
  SegmentImage segment = Encode(2, UniformChanges(random, 2, kElements, 1000, true), false);
  ASSERT_TRUE(Decode(2, segment).has_value());
  TileRecord record = segment.record<TileRecord>(0);
  record.after = 1;
  segment.set_record(0, record);
  EXPECT_FALSE(Decode(2, segment).has_value());
}

// Does a segment whose only record is this tile of bytes decode?
bool TileDecodes(TileMode mode, Buffer body, uint32_t span, uint32_t count) {
  SegmentImage segment = Encode(1, {}, false);
  segment.record_count = 1;
  segment.body = std::move(body);
  segment.change_count = count;
  segment.records.assign(sizeof(TileRecord), 0);
  segment.set_record(0, TileRecord{.first = 5,
                                   .offset = 0,
                                   .before = 0,
                                   .after = 0,
                                   .span = span,
                                   .count_minus_1 = static_cast<uint16_t>(count - 1),
                                   .mode = static_cast<uint8_t>(mode),
                                   .table_set = 0});
  return Decode(1, segment).has_value();
}

// A raw or dense tile may not hide a change that its record does not count, nor begin or end on an unchanged element.
TEST(SparseDecoder, RefusesRawTilesThatDisagreeWithTheirRecord) {
  const auto decodes = [](Buffer body, uint32_t span, uint32_t count) {
    return TileDecodes(TileMode::kRaw, std::move(body), span, count);
  };
  EXPECT_TRUE(decodes({1, 0, 3, 0}, 2, 2));
  EXPECT_FALSE(decodes({1, 0, 3, 0}, 2, 3));
  EXPECT_FALSE(decodes({1, 2, 3, 0}, 2, 2));
  EXPECT_FALSE(decodes({0, 2, 3, 0}, 2, 2));
  EXPECT_FALSE(decodes({1, 2, 0, 0}, 2, 2));
  EXPECT_FALSE(decodes({1, 0, 3, 4}, 2, 2));              // padding
  EXPECT_FALSE(decodes({1, 0, 3, 0, 0, 0, 0, 0}, 2, 2));  // length
  EXPECT_FALSE(decodes({1, 0, 3}, 2, 2));
}

TEST(SparseDecoder, RefusesPlainTilesThatDisagreeWithTheirRecord) {
  const auto decodes = [](Buffer body, uint32_t span, uint32_t count) {
    return TileDecodes(TileMode::kPlain, std::move(body), span, count);
  };
  EXPECT_TRUE(decodes({1, 9, 3, 0}, 10, 2));
  EXPECT_FALSE(decodes({1, 9, 3, 0}, 11, 2));                                                     // ends early
  EXPECT_FALSE(decodes({1, 9, 3, 0}, 9, 2));                                                      // leaves its span
  EXPECT_FALSE(decodes({1, 9, 0, 0}, 10, 2));                                                     // a change of nothing
  EXPECT_FALSE(decodes({1, 9, 3, 7}, 10, 2));                                                     // padding
  EXPECT_FALSE(decodes({1, 0x89, 0x00, 3}, 10, 2));                                               // a needless varint byte
  EXPECT_FALSE(decodes({1, 9, 3, 0, 0, 0, 0, 0}, 10, 2));                                         // bytes left
  EXPECT_FALSE(decodes({1, 0xff, 0xff, 0xff}, 10, 2));                                            // no end
  EXPECT_FALSE(decodes({1, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01, 3, 0}, 10, 2));  // wraps 64 bits
}

}  // namespace
}  // namespace xorbit
