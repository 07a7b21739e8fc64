// All mask codecs from changes to changes: round trips over every unit and kind of part, digests, the same bytes from any
// number of threads, and a reader that names what is wrong with damaged records.
#include "codec/mask_codec.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <random>
#include <utility>

#include "base/checked_math.h"
#include "base/testing/seed.h"
#include "codec/change_digest.h"
#include "codec/mask_decoder.h"
#include "codec/mask_format.h"
#include "codec/segment_image.h"
#include "codec/sparse_test_util.h"
#include "tensor/random_model.h"

namespace xorbit {
namespace {

using ::testing::HasSubstr;

std::vector<ElementChange> WithoutOlds(std::vector<ElementChange> changes) {
  for (ElementChange& change : changes) change.old_bits = 0;
  return changes;
}

// What the frames must say about digests, element by element.
void ExpectDigests(const SegmentMap& map, const std::vector<uint64_t>& keys, const std::vector<ElementChange>& changes,
                   const SegmentImage& image, const StateDigest& change) {
  std::vector<uint64_t> before(image.record_count);
  std::vector<uint64_t> after(image.record_count);
  StateDigest total;
  uint64_t frame = 0;
  for (const ElementChange& c : changes) {
    while (c.element >= image.record<FrameRecord>(frame).first + image.record<FrameRecord>(frame).element_count) ++frame;
    const Run run = RunAt(map, c.element);
    const uint64_t key = keys[run.tensor_index];
    const StateDigest was = DigestOfElement(key, map.unit_bytes(), run.tensor_element, c.old_bits);
    const StateDigest is = DigestOfElement(key, map.unit_bytes(), run.tensor_element, c.old_bits ^ c.xor_bits);
    before[frame] += was.lane0;
    after[frame] += is.lane0;
    total += is - was;
  }
  EXPECT_EQ(total, change);
  for (uint64_t i = 0; i < image.record_count; ++i) {
    EXPECT_EQ(image.record<FrameRecord>(i).before, before[i]);
    EXPECT_EQ(image.record<FrameRecord>(i).after, after[i]);
    EXPECT_NE(before[i], after[i]);
  }
}

// Changes of random elements, with random old values and XORs that often leave bytes zero.
std::vector<ElementChange> RandomChanges(Random& random, const SegmentMap& map) {
  std::vector<ElementChange> changes;
  const uint64_t one_in = uint64_t{1} << random() % 12;
  for (uint64_t element = 0; element < map.element_count(); ++element) {
    if (random() % one_in == 0) changes.push_back(RandomChange(random, map.unit_bytes(), element, random() % 2 == 0));
  }
  return changes;
}

TEST(MaskCodec, RoundTripsEverySegment) {
  const uint64_t seed = TestSeed();
  Random random(seed);
  for (int round = 0; round < 40; ++round) {
    SCOPED_TRACE("seed " + std::to_string(seed) + " round " + std::to_string(round));
    const Layout layout = RandomLayout(random, 6, round % 8 == 0 ? 200'000 : 3000);
    for (const SegmentMap& map : RandomSegments(random, layout)) {
      const std::vector<ElementChange> changes = RandomChanges(random, map);
      const bool has_values = random() % 4 != 0;
      const ListSource source(map.unit_bytes(), map.element_count(), changes, has_values);
      EncodeOptions options = {.threads = static_cast<int>(Between(random, 1, 3))};
      if (random() % 2 == 0) options.frame_bytes = 8 * Between(random, 1, 1000);
      for (const Codec* codec : MaskCodecs()) {
        SCOPED_TRACE(codec->name());
        const EncodedSegment segment = codec->Encode(map, TensorKeysOf(layout), source, options).value();
        const SegmentImage image(segment);
        ASSERT_EQ(segment.change_count, changes.size());
        ASSERT_EQ(segment.has_digests, has_values);
        const auto decoder = codec->Open(map, image.view());
        ASSERT_TRUE(decoder.ok()) << decoder.status().message();
        const auto decoded = DecodeAll(**decoder, map.unit_bytes());
        ASSERT_TRUE(decoded.ok()) << decoded.status().message();
        ASSERT_EQ(*decoded, WithoutOlds(changes));
        if (has_values) ExpectDigests(map, TensorKeysOf(layout), changes, image, segment.change);
        ASSERT_EQ(segment.cuts.empty() ? 0 : segment.cuts.back(), image.body.size());
      }
    }
  }
}

TEST(MaskCodec, FramesStandOnTheGridOfTheirPart) {
  const SegmentMap map = OneTensorMap(2, 100'000);
  const std::vector<ElementChange> changes = {{0, 0, 1}, {511, 0, 1}, {512, 0, 1}, {70'000, 0, 1}};
  const ListSource source(2, map.element_count(), changes, true);
  for (const Codec* codec : MaskCodecs()) {
    const SegmentImage image(codec->Encode(map, {{1}}, source, {.frame_bytes = 1024}).value());
    ASSERT_EQ(image.record_count, 3U);
    EXPECT_EQ(image.record<FrameRecord>(0).first, 0U);
    EXPECT_EQ(image.record<FrameRecord>(0).change_count, 2U);
    EXPECT_EQ(image.record<FrameRecord>(1).first, 512U);
    EXPECT_EQ(image.record<FrameRecord>(2).first, 70'000U / 512 * 512);
    EXPECT_EQ(image.record<FrameRecord>(2).element_count, 512U);
  }
}

TEST(MaskCodec, NoChangesAreNoBytes) {
  const SegmentMap map = OneTensorMap(4, 1000);
  const ListSource source(4, 1000, {}, true);
  for (const Codec* codec : MaskCodecs()) {
    const SegmentImage image(codec->Encode(map, {{1}}, source, {}).value());
    EXPECT_EQ(image.records.size() + image.outer.size() + image.body.size(), 0U);
    EXPECT_EQ(codec->Open(map, image.view()).value()->record_count(), 0U);
  }
}

TEST(MaskCodec, SeveralOuterChunksHoldTheInnerStreamEndToEnd) {
  Random random(5);
  const SegmentMap map = OneTensorMap(1, uint64_t{3} << 20);
  const auto changes = UniformChanges(random, 1, map.element_count(), 300'000, false);
  const ListSource source(1, map.element_count(), changes, true);
  const EncodeOptions options = {.frame_bytes = uint64_t{300} << 10};
  for (const auto& [plain, outer] : {std::pair("snappy", "snappy+zstd"), std::pair("lz4", "lz4+zstd")}) {
    const SegmentImage inner(FindCodec(plain)->Encode(map, {{1}}, source, options).value());
    const SegmentImage image(FindCodec(outer)->Encode(map, {{1}}, source, options).value());
    EXPECT_EQ(image.outer.size(), DivideRoundUp(inner.body.size(), kOuterChunkBytes) * sizeof(OuterRecord));
    EXPECT_GT(image.outer.size(), 2 * sizeof(OuterRecord));
    EXPECT_EQ(image.records, inner.records);
    const auto decoder = MaskDecoder::Open(plain == std::string("lz4") ? Lz4Inner() : SnappyInner(), true, map, image.view());
    Buffer stream;
    Buffer room(kMaxFrameBytes * 2);
    for (uint64_t i = 0; i < image.record_count; ++i) AppendBytes(stream, (*decoder)->InnerFrame(i, room.data()).value());
    EXPECT_EQ(stream, inner.body);
  }
}

ElementChange ChangeBy(uint64_t element, int64_t difference) {
  const auto old_bits = static_cast<uint32_t>(difference < 0 ? -difference : 0);
  return {element, old_bits, old_bits ^ static_cast<uint32_t>(old_bits + difference)};
}

TEST(MaskCodec, HalvesAFrameWhoseDigestWouldNotChange) {
  const SegmentMap map = OneTensorMap(4, 1000);
  const uint64_t key = TensorKeyOf("w");
  const auto [a, b] = CancellingDifferences(WordWeight(key, 100).lane0, WordWeight(key, 110).lane0);
  ASSERT_LT(std::max(std::abs(a), std::abs(b)), int64_t{1} << 32);
  const std::vector<ElementChange> changes = {ChangeBy(100, a), ChangeBy(110, b)};
  for (const Codec* codec : MaskCodecs()) {
    const ListSource source(4, 1000, changes, true);
    const EncodedSegment segment = codec->Encode(map, {{key}}, source, {}).value();
    EXPECT_EQ(segment.change.lane0, 0U);
    const SegmentImage image(segment);
    ASSERT_EQ(image.record_count, 2U);
    // 1000 -> 500 -> 250 -> 125 -> [62, 125) -> [93, 125) -> [93, 109) and [109, 125).
    EXPECT_EQ(image.record<FrameRecord>(0).first, 93U);
    EXPECT_EQ(image.record<FrameRecord>(1).first, 109U);
    const auto decoder = codec->Open(map, image.view());
    ASSERT_TRUE(decoder.ok());
    EXPECT_EQ(*DecodeAll(**decoder, 4), WithoutOlds(changes));
    // Without digests there is no reason to.
    const ListSource bare(4, 1000, changes, false);
    EXPECT_EQ(codec->Encode(map, {{key}}, bare, {}).value().record_count, 1U);
  }
}

// Nothing is left to cut where one 8-byte element's words cancel: the frame says so by equal digests, and is read.
TEST(MaskCodec, KeepsALoneChangeThatItsDigestDoesNotShow) {
  const SegmentMap map = OneTensorMap(8, 1000);
  const uint64_t key = TensorKeyOf("w");
  const std::vector<ElementChange> changes = {{5, 0, 1}, HiddenChange(key, 700)};
  for (const Codec* codec : MaskCodecs()) {
    const ListSource source(8, 1000, changes, true);
    const EncodedSegment segment = codec->Encode(map, {{key}}, source, {.frame_bytes = 4000}).value();
    EXPECT_NE(segment.change.lane1, 0U);
    SegmentImage image(segment);
    ASSERT_EQ(image.record_count, 2U);
    FrameRecord record = image.record<FrameRecord>(1);
    EXPECT_EQ(record.before, record.after);
    const auto decoder = codec->Open(map, image.view());
    ASSERT_TRUE(decoder.ok()) << decoder.status().message();
    EXPECT_EQ(*DecodeAll(**decoder, 8), WithoutOlds(changes));
    // Two changes would have been cut.
    ++record.change_count;
    ++image.change_count;
    image.set_record(1, record);
    EXPECT_THAT(codec->Open(map, image.view()).status().message(), HasSubstr("says that nothing changes"));
  }
}

TEST(MaskCodec, RefusesOptionsThatCannotBeMet) {
  const SegmentMap map = OneTensorMap(8, 1000);
  const ListSource source(8, 1000, {{5, 0, 1}}, true);
  const auto message = [&](const char* codec, EncodeOptions options) {
    return FindCodec(codec)->Encode(map, {{1}}, source, options).status().message();
  };
  EXPECT_THAT(message("lz4", {.frame_bytes = kMaxFrameBytes + 8}), HasSubstr("longer than readers accept"));
  EXPECT_THAT(message("lz4", {.frame_bytes = 0}), HasSubstr("do not hold whole elements of 8"));
  EXPECT_THAT(message("snappy", {.frame_bytes = 100}), HasSubstr("do not hold whole elements of 8"));
  EXPECT_THAT(message("zstd", {.zstd_level = 50}), HasSubstr("Zstd level 50 is outside"));
  EXPECT_THAT(message("lz4+zstd", {.zstd_level = 50}), HasSubstr("Zstd level 50 is outside"));
}

// A segment of two parts of 3000 one-byte elements, frames of 1000, every tenth element changed.
class MaskReader : public ::testing::Test {
 protected:
  MaskReader() {
    layout_ =
        Layout::Make({{.name = "a", .dtype = Dtype::kU8, .shape = {3000}}, {.name = "b", .dtype = Dtype::kU8, .shape = {3000}}})
            .value();
    map_ = SegmentMap::Make(layout_, 1, 0, {WholeTensor(layout_, 0), WholeTensor(layout_, 1)}).value();
    for (uint64_t e = 3; e < 6000; e += 10) changes_.push_back({e, e & 0xff, 1 + e % 255});
  }

  SegmentImage Encoded(const char* codec, bool has_values = true) const {
    const ListSource source(1, 6000, changes_, has_values);
    return SegmentImage(FindCodec(codec)->Encode(map_, TensorKeysOf(layout_), source, {.frame_bytes = 1000}).value());
  }

  // Why the image is refused, at Open or at the first frame that is; empty if it is not.
  std::string WhyRefused(const char* codec, const SegmentImage& image) const {
    const auto decoder = FindCodec(codec)->Open(map_, image.view());
    if (!decoder.ok()) return decoder.status().message();
    return DecodeAll(**decoder, 1).status().message();
  }

  // The same after `damage` has been done to frame 1's record.
  std::string WhyRefused(const std::function<void(FrameRecord*)>& damage, bool has_values = true) const {
    SegmentImage image = Encoded("lz4", has_values);
    FrameRecord record = image.record<FrameRecord>(1);
    damage(&record);
    image.set_record(1, record);
    return WhyRefused("lz4", image);
  }

  Layout layout_;
  SegmentMap map_;
  std::vector<ElementChange> changes_;
};

TEST_F(MaskReader, NamesWhatIsWrongWithAFrame) {
  EXPECT_EQ(WhyRefused([](FrameRecord*) {}), "");
  EXPECT_THAT(WhyRefused([](FrameRecord* r) { r->reserved = 1; }), HasSubstr("frame 1 sets a reserved field"));
  EXPECT_THAT(WhyRefused([](FrameRecord* r) { r->element_count = 0; }), HasSubstr("spans no elements"));
  EXPECT_THAT(WhyRefused([](FrameRecord* r) { r->element_count = kMaxFrameBytes + 1; }), HasSubstr("is longer than"));
  EXPECT_THAT(WhyRefused([](FrameRecord* r) { r->element_count = 2001; }), HasSubstr("past the end of its part"));
  EXPECT_THAT(WhyRefused([](FrameRecord* r) { r->element_count = 1001; }), HasSubstr("frame 2 overlaps"));
  EXPECT_THAT(WhyRefused([](FrameRecord* r) { r->first = 999; }), HasSubstr("overlaps the one before"));
  EXPECT_THAT(WhyRefused([](FrameRecord* r) { r->first = 6000; }), HasSubstr("past the segment's end"));
  EXPECT_THAT(WhyRefused([](FrameRecord* r) { r->first = ~uint64_t{0}; }), HasSubstr("past the segment's end"));
  EXPECT_THAT(WhyRefused([](FrameRecord* r) { r->change_count = 0; }), HasSubstr("should have been omitted"));
  EXPECT_THAT(WhyRefused([](FrameRecord* r) { r->change_count = 1001; }), HasSubstr("more changes than elements"));
  EXPECT_THAT(WhyRefused([](FrameRecord* r) { ++r->change_count; }), HasSubstr("do not add up"));
  EXPECT_THAT(WhyRefused([](FrameRecord* r) { r->inner_bytes = 0; }), HasSubstr("impossible encoded length"));
  EXPECT_THAT(WhyRefused([](FrameRecord* r) { r->inner_bytes = 2000; }), HasSubstr("impossible encoded length"));
  EXPECT_THAT(WhyRefused([](FrameRecord* r) { ++r->inner_bytes; }), HasSubstr("frame 2 does not follow"));
  EXPECT_THAT(WhyRefused([](FrameRecord* r) { ++r->inner_offset; }), HasSubstr("does not follow"));
  EXPECT_THAT(WhyRefused([](FrameRecord* r) { r->after = r->before; }), HasSubstr("says that nothing changes"));
  EXPECT_THAT(WhyRefused([](FrameRecord* r) { ++r->inner_hash; }), HasSubstr("does not match its hash"));
  EXPECT_THAT(WhyRefused([](FrameRecord* r) { --r->element_count; }), HasSubstr("frame 1: malformed LZ4 block"));
  EXPECT_THAT(WhyRefused([](FrameRecord* r) { r->before = 1; }, false), HasSubstr("digests in a payload without"));
}

TEST_F(MaskReader, CountsTheChangesOfAFrame) {
  for (const int step : {-1, 1}) {
    SegmentImage image = Encoded("lz4");
    FrameRecord record = image.record<FrameRecord>(1);
    record.change_count += static_cast<uint32_t>(step);
    image.set_record(1, record);
    image.change_count += static_cast<uint64_t>(step);
    EXPECT_THAT(WhyRefused("lz4", image), HasSubstr("frame 1 does not have as many changes as it states"));
  }
}

TEST_F(MaskReader, RefusesSectionsThatDoNotFit) {
  SegmentImage image = Encoded("snappy");
  image.tables.push_back(0);
  EXPECT_THAT(WhyRefused("snappy", image), HasSubstr("have no tables"));
  image = Encoded("snappy");
  image.records.push_back(0);
  EXPECT_THAT(WhyRefused("snappy", image), HasSubstr("number of frames"));
  image = Encoded("snappy");
  ++image.record_count;
  EXPECT_THAT(WhyRefused("snappy", image), HasSubstr("number of frames"));
  image = Encoded("snappy");
  image.outer.resize(16);
  EXPECT_THAT(WhyRefused("snappy", image), HasSubstr("has no outer chunks"));
  image = Encoded("snappy");
  image.body.push_back(0);
  EXPECT_THAT(WhyRefused("snappy", image), HasSubstr("do not fill the body"));
}

TEST_F(MaskReader, RefusesOuterChunksThatDoNotFit) {
  const SegmentImage good = Encoded("lz4+zstd");
  const auto refused = [&](const std::function<void(OuterRecord*)>& damage) {
    SegmentImage image = good;
    auto record = LoadLe<OuterRecord>(image.outer.data());
    damage(&record);
    StoreLe(image.outer.data(), record);
    return WhyRefused("lz4+zstd", image);
  };
  EXPECT_EQ(refused([](OuterRecord*) {}), "");
  EXPECT_THAT(refused([](OuterRecord* r) { ++r->inner_bytes; }), HasSubstr("outer chunk 0 has a wrong length"));
  EXPECT_THAT(refused([](OuterRecord* r) { ++r->offset; }), HasSubstr("does not follow"));
  EXPECT_THAT(refused([](OuterRecord* r) { ++r->encoded_bytes; }), HasSubstr("past the body"));
  EXPECT_THAT(refused([](OuterRecord* r) { --r->encoded_bytes; }), HasSubstr("do not fill the body"));
  SegmentImage image = good;
  image.outer.clear();
  EXPECT_THAT(WhyRefused("lz4+zstd", image), HasSubstr("number of outer chunks"));
  image = good;
  image.outer.push_back(0);
  EXPECT_THAT(WhyRefused("lz4+zstd", image), HasSubstr("do not fill their section"));
  image = good;
  image.body[0] ^= 1;
  EXPECT_THAT(WhyRefused("lz4+zstd", image), HasSubstr("outer chunk 0: does not start with a Zstd frame"));
}

// Inner frames cannot be made to need more memory than their masks justify.
TEST_F(MaskReader, RefusesInnerBytesThatTheMasksDoNotJustify) {
  SegmentImage image = Encoded("snappy+zstd");
  FrameRecord record = image.record<FrameRecord>(5);
  record.inner_bytes = 4'000'000'000;
  image.set_record(5, record);
  EXPECT_THAT(WhyRefused("snappy+zstd", image), HasSubstr("frame 5 has an impossible encoded length"));
}

TEST_F(MaskReader, AnyFlippedBitIsRefusedOrHarmless) {
  for (const char* codec : {"snappy", "lz4", "snappy+zstd", "lz4+zstd", "zstd"}) {
    const SegmentImage good = Encoded(codec);
    for (Buffer SegmentImage::*section : {&SegmentImage::records, &SegmentImage::outer, &SegmentImage::body}) {
      for (uint64_t bit = 0; bit < (good.*section).size() * 8; ++bit) {
        SegmentImage image = good;
        (image.*section)[bit / 8] ^= static_cast<uint8_t>(1 << bit % 8);
        const auto decoder = FindCodec(codec)->Open(map_, image.view());
        if (!decoder.ok()) continue;
        const auto decoded = DecodeAll(**decoder, 1);
        // Accepted are only other digests and, where a Zstd frame has a bit that its decoder ignores, the same changes.
        if (decoded.ok()) {
          EXPECT_EQ(*decoded, WithoutOlds(changes_)) << codec << " bit " << bit;
        }
      }
    }
  }
}

}  // namespace
}  // namespace xorbit
