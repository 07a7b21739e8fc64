// Payloads written and read back, and every way to lie in a head, refused.
#include <algorithm>
#include <random>

#include "payload/payload_format.h"
#include "payload/payload_reader.h"
#include "payload/payload_test_util.h"
#include "payload/payload_writer.h"

namespace xorbit {
namespace {

using namespace testing_payload;  // NOLINT(google-build-using-namespace): helpers made for these tests
using ::testing::HasSubstr;

// Parse wants 8-byte alignment, which a Buffer's allocation has.
std::string ErrorOf(const Layout& layout, const Buffer& bytes) {
  const auto payload = ParsePayload(layout, bytes);
  return payload.ok() ? "" : payload.status().message();
}

std::vector<SegmentMap> EverythingOf(const Layout& layout) {
  auto owners = PlanOwners(layout, 1, Split::kWhole);
  EXPECT_TRUE(owners.ok());
  return std::move((*owners)[0]);
}

TEST(Payload, RoundTrips) {
  const Layout layout = SmallLayout();
  const std::vector<SegmentMap> maps = EverythingOf(layout);
  ASSERT_EQ(maps.size(), 3U);
  std::mt19937_64 random(3);
  std::vector<EncodedSegment> segments = {MadeUpSegment(random, {10, 20}), MadeUpSegment(random, {}),
                                          MadeUpSegment(random, {7})};
  const std::vector<EncodedSegment> wanted = segments;
  const auto payload = WritePayload(layout, {CodecId::kSparse, 2, 5}, maps, std::move(segments), 2);
  ASSERT_TRUE(payload.ok());
  const Buffer bytes = FileBytesOf(*payload);
  EXPECT_EQ(payload->byte_count, bytes.size());
  EXPECT_EQ(payload->sha256, Sha256Of(bytes));
  EXPECT_EQ(payload->head_sha256, Sha256Of(payload->head));
  EXPECT_EQ(payload->change_count, 3U);
  EXPECT_EQ(payload->change, wanted[0].change + wanted[2].change);

  const auto view = ParsePayload(layout, bytes);
  ASSERT_TRUE(view.ok()) << view.status().message();
  EXPECT_EQ(view->info.codec, CodecId::kSparse);
  EXPECT_EQ(view->info.owner_index, 2U);
  EXPECT_EQ(view->info.owner_count, 5U);
  EXPECT_EQ(view->change(), payload->change);
  EXPECT_TRUE(view->has_digests());
  ASSERT_EQ(view->segments.size(), 3U);
  for (size_t i = 0; i < 3; ++i) {
    const PayloadSegment& segment = view->segments[i];
    EXPECT_EQ(segment.map.parts(), maps[i].parts());
    EXPECT_EQ(segment.map.group(), maps[i].group());
    EXPECT_EQ(segment.map.unit_bytes(), maps[i].unit_bytes());
    EXPECT_EQ(segment.view.record_count, wanted[i].record_count);
    EXPECT_EQ(segment.view.change_count, wanted[i].change_count);
    EXPECT_TRUE(std::ranges::equal(segment.view.tables, wanted[i].tables));
    EXPECT_TRUE(std::ranges::equal(segment.view.records, wanted[i].records));
    EXPECT_TRUE(std::ranges::equal(segment.view.outer, wanted[i].outer));
    EXPECT_EQ(reinterpret_cast<uintptr_t>(segment.view.records.data()) % 8, 0U);
    Buffer body;
    for (const Buffer& piece : wanted[i].body) AppendBytes(body, piece);
    EXPECT_TRUE(std::ranges::equal(segment.view.body, body));
  }
  EXPECT_TRUE(VerifyChunks(*view, 2).ok());
}

TEST(Payload, FixedCostOfOneOwnerIsSmall) {
  // Everything in the head but records and tables: what small updates pay for the format.
  const Layout layout = MakeLayout({Tensor("a", Dtype::kBF16, {64, 64}), Tensor("b", Dtype::kBF16, {64})});
  EncodedSegment segment;
  segment.records.resize(40);
  segment.body = {Buffer(9, 1)};
  segment.cuts = {9};
  segment.record_count = segment.change_count = 1;
  const auto payload = WritePayload(layout, {}, EverythingOf(layout), {segment}, 1);
  ASSERT_TRUE(payload.ok());
  EXPECT_EQ(payload->head.size() - 40, sizeof(PayloadHeader) + sizeof(SegmentRecord) + sizeof(ChunkRecord) + 8);
}

TEST(Payload, EmptyOwner) {
  const Layout layout = SmallLayout();
  const auto payload = WritePayload(layout, {CodecId::kSparse, 1, 2}, {}, {}, 1);
  ASSERT_TRUE(payload.ok());
  EXPECT_EQ(payload->byte_count, sizeof(PayloadHeader));
  EXPECT_TRUE(payload->has_digests);
  const auto view = ParsePayload(layout, payload->head);
  ASSERT_TRUE(view.ok()) << view.status().message();
  EXPECT_TRUE(view->segments.empty());
  EXPECT_TRUE(view->chunks.empty());
}

TEST(Payload, ChunksEndAtCutsAndDoNotDependOnThreadsOrPieces) {
  const Layout layout = MakeLayout({Tensor("a", Dtype::kU8, {1 << 20}), Tensor("b", Dtype::kBF16, {1 << 20})});
  const std::vector<SegmentMap> maps = EverythingOf(layout);
  ASSERT_EQ(maps.size(), 2U);
  std::mt19937_64 random(5);
  std::vector<EncodedSegment> segments = {MadeUpSegment(random, {300'000, 100'000, 200'000, 2'000'000, 10'000}),
                                          MadeUpSegment(random, {400'000, 200'000, 524'288, 1})};
  std::vector<EncodedSegment> one_piece = segments;
  for (EncodedSegment& segment : one_piece) {
    Buffer whole;
    for (const Buffer& piece : segment.body) AppendBytes(whole, piece);
    segment.body = {Buffer(), std::move(whole), Buffer()};
  }
  const auto payload = WritePayload(layout, {}, maps, std::move(segments), 1);
  const auto other = WritePayload(layout, {}, maps, std::move(one_piece), 4);
  ASSERT_TRUE(payload.ok() && other.ok());
  EXPECT_EQ(payload->sha256, other->sha256);
  EXPECT_EQ(FileBytesOf(*payload), FileBytesOf(*other));

  const Buffer bytes = FileBytesOf(*payload);
  const auto view = ParsePayload(layout, bytes);
  ASSERT_TRUE(view.ok()) << view.status().message();
  std::vector<uint64_t> sizes;
  for (const ChunkRecord& chunk : view->chunks) sizes.push_back(chunk.byte_count);
  EXPECT_EQ(sizes, (std::vector<uint64_t>{600'000, 2'000'000, 610'000, 524'288, 1}));
  EXPECT_TRUE(VerifyChunks(*view, 3).ok());

  Buffer broken = bytes;
  broken[view->header.head_bytes + 2'600'000] ^= 1;
  const auto broken_view = ParsePayload(layout, broken);
  ASSERT_TRUE(broken_view.ok());
  EXPECT_EQ(VerifyChunks(*broken_view, 3).message(), "chunk 2 does not match its SHA-256");
}

TEST(Payload, WriterRefusesMixedDigestsAndDisorder) {
  const Layout layout = SmallLayout();
  const std::vector<SegmentMap> maps = EverythingOf(layout);
  std::mt19937_64 random(9);
  EXPECT_EQ(WritePayload(layout, {}, maps,
                         {MadeUpSegment(random, {1}), MadeUpSegment(random, {1}, false), MadeUpSegment(random, {1})}, 1)
                .status()
                .code(),
            Code::kUsage);
  EXPECT_EQ(
      WritePayload(layout, {}, {maps[1], maps[0]}, {MadeUpSegment(random, {1}), MadeUpSegment(random, {1})}, 1).status().code(),
      Code::kUsage);
  const auto without = WritePayload(
      layout, {}, maps, {MadeUpSegment(random, {1}, false), MadeUpSegment(random, {}), MadeUpSegment(random, {})}, 1);
  ASSERT_TRUE(without.ok());
  EXPECT_FALSE(without->has_digests);
}

TEST(Payload, EveryTruncationAndExtensionIsRefused) {
  const Layout layout = SmallLayout();
  Buffer bytes = FileBytesOf(MadeUpPayload(layout, EverythingOf(layout), {}, 1));
  ASSERT_EQ(ErrorOf(layout, bytes), "");
  for (size_t byte_count = 0; byte_count < bytes.size(); ++byte_count) {
    EXPECT_NE(ErrorOf(layout, Buffer(bytes.begin(), bytes.begin() + static_cast<int64_t>(byte_count))), "") << byte_count;
  }
  bytes.push_back(0);
  EXPECT_NE(ErrorOf(layout, bytes), "");
}

// Parse, chunk hashes, and the head hash that a manifest holds: nothing gets past all three.
TEST(Payload, EveryFlippedBitIsRefused) {
  const Layout layout = SmallLayout();
  const Payload payload = MadeUpPayload(layout, EverythingOf(layout), {}, 1);
  Buffer bytes = FileBytesOf(payload);
  int refused_by_parse = 0;
  for (size_t bit = 0; bit < 8 * bytes.size(); ++bit) {
    bytes[bit / 8] ^= static_cast<uint8_t>(1U << (bit % 8));
    const auto view = ParsePayload(layout, bytes);
    if (!view.ok()) {
      ++refused_by_parse;
    } else if (VerifyChunks(*view, 1).ok()) {
      EXPECT_NE(Sha256Of(ConstBytes(bytes).first(view->header.head_bytes)), payload.head_sha256) << "bit " << bit;
    }
    bytes[bit / 8] ^= static_cast<uint8_t>(1U << (bit % 8));
  }
  EXPECT_GT(refused_by_parse, 112 * 4);
}

// One field of a good payload changed at a time.
class HostileField : public ::testing::Test {
 protected:
  HostileField() : bytes_(FileBytesOf(MadeUpPayload(layout_, EverythingOf(layout_), {}, 1))) {}

  template <typename T>
  std::string With(size_t offset, T value) {
    Buffer changed = bytes_;
    StoreLe<T>(changed.data() + offset, value);
    return ErrorOf(layout_, changed);
  }

  Layout layout_ = SmallLayout();
  Buffer bytes_;
};

TEST_F(HostileField, Header) {
  EXPECT_THAT(With<uint8_t>(0, 'x'), HasSubstr("not a xorbit payload"));
  EXPECT_THAT(With<uint32_t>(offsetof(PayloadHeader, format_version), 2), HasSubstr("format version 2"));
  EXPECT_THAT(With<uint32_t>(offsetof(PayloadHeader, flags), 3), HasSubstr("flags"));
  EXPECT_THAT(With<uint64_t>(offsetof(PayloadHeader, head_bytes), UINT64_MAX), HasSubstr("do not add up"));
  EXPECT_THAT(With<uint8_t>(offsetof(PayloadHeader, layout_digest), 0xee), HasSubstr("another layout"));
  EXPECT_THAT(With<uint32_t>(offsetof(PayloadHeader, owner_index), 1), HasSubstr("owner that does not exist"));
  EXPECT_THAT(With<uint32_t>(offsetof(PayloadHeader, owner_count), 0), HasSubstr("owner that does not exist"));
  EXPECT_THAT(With<uint32_t>(offsetof(PayloadHeader, owner_count), UINT32_MAX), HasSubstr("owner that does not exist"));
  for (const uint32_t codec : {0U, 7U, 8U, UINT32_MAX}) {
    EXPECT_THAT(With<uint32_t>(offsetof(PayloadHeader, codec), codec), HasSubstr("codec number"));
  }
  EXPECT_THAT(With<uint32_t>(offsetof(PayloadHeader, segment_count), UINT32_MAX), HasSubstr("more segments and chunks"));
  EXPECT_THAT(With<uint64_t>(offsetof(PayloadHeader, chunk_count), UINT64_MAX), HasSubstr("more segments and chunks"));
  EXPECT_THAT(With<uint64_t>(offsetof(PayloadHeader, chunk_count), (UINT64_MAX / 40) + 2),
              HasSubstr("more segments and chunks"));
  EXPECT_THAT(With<uint64_t>(offsetof(PayloadHeader, chunk_count), 0), HasSubstr("tile the body"));
  EXPECT_THAT(With<uint64_t>(offsetof(PayloadHeader, change_count), 7), HasSubstr("do not add up"));
  EXPECT_THAT(With<uint64_t>(offsetof(PayloadHeader, change_count), 0), HasSubstr("change digest without"));
  EXPECT_THAT(With<uint32_t>(offsetof(PayloadHeader, flags), 0), HasSubstr("change digest without"));
}

TEST_F(HostileField, SegmentRecord) {
  constexpr size_t kFirst = sizeof(PayloadHeader);
  EXPECT_THAT(With<uint32_t>(kFirst + offsetof(SegmentRecord, unit_bytes), 3), HasSubstr("unit is not"));
  EXPECT_THAT(With<uint32_t>(kFirst + offsetof(SegmentRecord, unit_bytes), 8), HasSubstr("frozen"));
  EXPECT_THAT(With<uint32_t>(kFirst + offsetof(SegmentRecord, group), 2), HasSubstr("not declared"));
  EXPECT_THAT(With<uint32_t>(kFirst + sizeof(SegmentRecord) + offsetof(SegmentRecord, unit_bytes), 1), HasSubstr("ascend"));
  EXPECT_THAT(With<uint64_t>(kFirst + offsetof(SegmentRecord, element_count), 0), HasSubstr("segment without elements"));
  EXPECT_THAT(With<uint64_t>(kFirst + offsetof(SegmentRecord, element_count), 31), HasSubstr("parts do not add up"));
  EXPECT_THAT(With<uint64_t>(kFirst + offsetof(SegmentRecord, change_count), UINT64_MAX), HasSubstr("contradict"));
  EXPECT_THAT(With<uint64_t>(kFirst + offsetof(SegmentRecord, record_count), 0), HasSubstr("contradict"));
  EXPECT_THAT(With<uint64_t>(kFirst + offsetof(SegmentRecord, record_count), 3), HasSubstr("contradict"));
  EXPECT_THAT(With<uint64_t>(kFirst + offsetof(SegmentRecord, change_count), 3), HasSubstr("add up"));
  EXPECT_THAT(With<uint64_t>(kFirst + offsetof(SegmentRecord, body_bytes), UINT64_MAX), HasSubstr("larger than the whole"));
  EXPECT_THAT(With<uint64_t>(kFirst + offsetof(SegmentRecord, body_bytes), 7), HasSubstr("belong to no segment"));
  for (const size_t field : {offsetof(SegmentRecord, parts_bytes), offsetof(SegmentRecord, tables_bytes),
                             offsetof(SegmentRecord, records_bytes), offsetof(SegmentRecord, outer_bytes)}) {
    EXPECT_THAT(With<uint64_t>(kFirst + field, UINT64_MAX), HasSubstr("past the head"));
    EXPECT_THAT(With<uint64_t>(kFirst + field, UINT64_MAX - 6), HasSubstr("past the head"));
  }
}

TEST_F(HostileField, PaddingAndChunks) {
  const auto view = ParsePayload(layout_, bytes_);
  ASSERT_TRUE(view.ok());
  const size_t first_parts = sizeof(PayloadHeader) + 3 * sizeof(SegmentRecord) + view->chunks.size() * sizeof(ChunkRecord);
  EXPECT_THAT(With<uint8_t>(first_parts + 7, 1), HasSubstr("padding"));
  EXPECT_THAT(With<uint64_t>(sizeof(PayloadHeader) + 3 * sizeof(SegmentRecord), 1), HasSubstr("tile the body"));
  EXPECT_THAT(With<uint64_t>(sizeof(PayloadHeader) + 3 * sizeof(SegmentRecord), 0), HasSubstr("tile the body"));
  EXPECT_THAT(With<uint64_t>(sizeof(PayloadHeader) + 3 * sizeof(SegmentRecord), UINT64_MAX), HasSubstr("tile the body"));
}

}  // namespace
}  // namespace xorbit
