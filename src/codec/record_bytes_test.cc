// Any cut of a segment's records into portions decodes to what the whole decodes to; heads that do not hold together are
// refused.
#include "codec/record_bytes.h"

#include <gtest/gtest.h>

#include "base/testing/seed.h"
#include "codec/mask_format.h"
#include "codec/segment_image.h"
#include "codec/sparse_format.h"
#include "codec/sparse_test_util.h"

namespace xorbit {
namespace {

EncodedSegmentView WithoutBody(const SegmentImage& image) {
  EncodedSegmentView head = image.view();
  head.body = {};
  return head;
}

// Some portion after the other, each with nothing but its own bytes of the body.
std::vector<ElementChange> DecodeByPortions(Random& random, const Codec& codec, const SegmentMap& map,
                                            const SegmentImage& image) {
  const EncodedSegmentView head = WithoutBody(image);
  const RecordTable table = RecordTable::Open(codec.id(), head, image.body.size()).value();
  std::vector<ElementChange> changes;
  for (uint64_t begin = 0; begin < table.record_count();) {
    const uint64_t end = Between(random, begin + 1, table.record_count());
    const RecordBytes bytes = table.Over(begin, end);
    const Buffer body(image.body.begin() + static_cast<ptrdiff_t>(bytes.body_begin),
                      image.body.begin() + static_cast<ptrdiff_t>(bytes.body_end));
    const auto portion = SegmentPortion::Make(table, begin, end, 0, body, 2);
    EXPECT_TRUE(portion.ok()) << portion.status().message();
    EXPECT_EQ((*portion)->byte_count(), bytes.inner_bytes + (end - begin) * table.record_size());
    const auto decoder = FindCodec((*portion)->codec())->Open(map, (*portion)->view());
    EXPECT_TRUE(decoder.ok()) << decoder.status().message();
    const auto decoded = DecodeAll(**decoder, map.unit_bytes());
    EXPECT_TRUE(decoded.ok()) << decoded.status().message();
    changes.insert(changes.end(), decoded->begin(), decoded->end());
    begin = end;
  }
  return changes;
}

TEST(RecordBytes, PortionsAreTheWhole) {
  SCOPED_TRACE("seed " + std::to_string(TestSeed()));
  Random random(TestSeed());
  for (const uint32_t unit_bytes : {1U, 2U, 4U, 8U}) {
    const SegmentMap map = OneTensorMap(unit_bytes, 3'000'000 / unit_bytes);
    const std::vector<ElementChange> changes =
        UniformChanges(random, unit_bytes, map.element_count(), 200'000 / unit_bytes, false);
    const ListSource source(unit_bytes, map.element_count(), changes, true);
    for (const Codec* codec : AllCodecs()) {
      SCOPED_TRACE(codec->name());
      const SegmentImage image(codec->Encode(map, {{TensorKeyOf("w")}}, source, {.frame_bytes = 50'000}).value());
      const auto whole = DecodeAll(*codec->Open(map, image.view()).value(), unit_bytes).value();
      for (int round = 0; round < 5; ++round) ASSERT_EQ(DecodeByPortions(random, *codec, map, image), whole);
    }
  }
}

// Whatever number of a record is another one: refused, or a table whose records lie in the body.
TEST(RecordBytes, DamagedHeadsStayInTheBody) {
  SCOPED_TRACE("seed " + std::to_string(TestSeed()));
  Random random(TestSeed());
  const SegmentMap map = OneTensorMap(2, 500'000);
  const ListSource source(2, map.element_count(), UniformChanges(random, 2, map.element_count(), 20'000, false), true);
  uint64_t refused = 0;
  for (const Codec* codec : AllCodecs()) {
    const SegmentImage whole(codec->Encode(map, {{TensorKeyOf("w")}}, source, {.frame_bytes = 50'000}).value());
    for (int round = 0; round < 300; ++round) {
      SegmentImage image = whole;
      Buffer& section = image.outer.empty() || random() % 2 == 0 ? image.records : image.outer;
      section[random() % section.size()] ^= static_cast<uint8_t>(1U << random() % 8);
      if (random() % 20 == 0) section.resize(random() % section.size());
      const EncodedSegmentView head = WithoutBody(image);
      const auto table = RecordTable::Open(codec->id(), head, image.body.size());
      refused += table.ok() ? 0 : 1;
      if (!table.ok()) {
        EXPECT_EQ(table.status().code(), Code::kCorrupt);
        EXPECT_FALSE(codec->Open(map, image.view()).ok()) << table.status().message();
        continue;
      }
      for (uint64_t i = 0; i < table->record_count(); ++i) {
        const RecordBytes bytes = table->at(i);
        ASSERT_LT(bytes.body_begin, bytes.body_end);
        ASSERT_LE(bytes.body_end, image.body.size());
      }
    }
  }
  EXPECT_GT(refused, 300U);
}

}  // namespace
}  // namespace xorbit
