// Entries of folders that nobody vouches for: right ones give the new tensor, all others an error and never more memory or
// reads.
#include "interchange/patched_tensor.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <zstd.h>

#include <numeric>
#include <random>

namespace xorbit {
namespace {

using testing::HasSubstr;

Buffer FrameOf(ConstBytes content, int level = 1) {
  ZstdFrameWriter writer = ZstdFrameWriter::Make(level, content.size()).value();
  EXPECT_TRUE(writer.Write(content).ok());
  return writer.Finish().value();
}

Buffer OverwriteContent(const std::vector<uint32_t>& positions, const Buffer& values) {
  Buffer content;
  AppendLe(content, static_cast<uint32_t>(positions.size()));
  for (const uint32_t position : positions) AppendLe(content, position);
  AppendBytes(content, values);
  return content;
}

// The new tensor, read in pieces of `piece_bytes`.
Result<Buffer> Patch(MilesEncoding encoding, ConstBytes entry, ConstBytes live, uint64_t piece_bytes = 7000) {
  XORBIT_ASSIGN_OR_RETURN(PatchedTensorReader reader, PatchedTensorReader::Open(encoding, entry, live));
  Buffer news(live.size());
  for (uint64_t at = 0; at < news.size(); at += piece_bytes) {
    const uint64_t count = std::min<uint64_t>(piece_bytes, news.size() - at);
    XORBIT_RETURN_IF_ERROR(reader.Next(MutableBytes(news).subspan(at, count)));
  }
  XORBIT_RETURN_IF_ERROR(reader.Finish());
  return news;
}

Buffer RandomBytes(uint64_t seed, size_t count) {
  std::mt19937_64 random(seed);
  Buffer bytes(count);
  for (uint8_t& byte : bytes) byte = static_cast<uint8_t>(random());
  return bytes;
}

TEST(PatchedTensor, XorsTheMask) {
  const Buffer live = RandomBytes(1, 300000);
  Buffer mask(live.size());
  for (size_t i = 0; i < mask.size(); i += 97) mask[i] = static_cast<uint8_t>(i | 1);
  Buffer expected = live;
  for (size_t i = 0; i < mask.size(); ++i) expected[i] ^= mask[i];
  for (const int level : {1, 3, 19}) {
    for (const uint64_t piece_bytes : {1U << 10, 65537U, 1U << 20}) {
      EXPECT_EQ(Patch(MilesEncoding::kXor, FrameOf(mask, level), live, piece_bytes).value(), expected);
    }
  }
}

TEST(PatchedTensor, OverwritesAcrossBlocksAndPieces) {
  const Buffer live = RandomBytes(2, 50000);
  std::vector<uint32_t> positions;
  Buffer values;
  Buffer expected = live;
  for (uint32_t at = 0; at < live.size(); at += 1 + at % 5) {
    positions.push_back(at);
    values.push_back(static_cast<uint8_t>(at));
    expected[at] = static_cast<uint8_t>(at);
  }
  ASSERT_GT(positions.size(), 3U * 4096);
  const Buffer frame = FrameOf(OverwriteContent(positions, values));
  for (const uint64_t piece_bytes : {1U, 4096U, 1U << 20}) {
    EXPECT_EQ(Patch(MilesEncoding::kOverwrite, frame, live, piece_bytes).value(), expected);
  }
  // It may be applied again.
  EXPECT_EQ(Patch(MilesEncoding::kOverwrite, frame, expected).value(), expected);
}

TEST(PatchedTensor, OverwriteOfNothingAndOfEverything) {
  const Buffer live = RandomBytes(3, 5000);
  EXPECT_EQ(Patch(MilesEncoding::kOverwrite, FrameOf(OverwriteContent({}, {})), live).value(), live);
  std::vector<uint32_t> positions(live.size());
  std::iota(positions.begin(), positions.end(), 0);
  const Buffer other = RandomBytes(4, 5000);
  EXPECT_EQ(Patch(MilesEncoding::kOverwrite, FrameOf(OverwriteContent(positions, other)), live).value(), other);
}

TEST(PatchedTensor, RefusesMasksOfAnotherLength) {
  const Buffer live(1000);
  for (const size_t length : {0, 999, 1001}) {
    const Status status = Patch(MilesEncoding::kXor, FrameOf(Buffer(length)), live).status();
    EXPECT_EQ(status.code(), Code::kCorrupt);
    EXPECT_THAT(status.message(), HasSubstr("another checkpoint"));
  }
}

// A terabyte of zeros in a small frame is refused by its stated length; a frame that understates it, when it goes on.
TEST(PatchedTensor, RefusesBombs) {
  const Buffer live(1000);
  Buffer bomb = FrameOf(Buffer(1 << 20));
  EXPECT_EQ(Patch(MilesEncoding::kXor, bomb, live).status().code(), Code::kCorrupt);
  // Frame header: magic, descriptor, window or size; the content size of 1 MiB stands in four bytes at its end.
  const Buffer stated = {0, 0, 16, 0};
  const auto size = std::search(bomb.begin(), bomb.end(), stated.begin(), stated.end());
  ASSERT_LT(size - bomb.begin(), 10);
  StoreLe<uint32_t>(&*size, 1000);
  ASSERT_EQ(ZSTD_getFrameContentSize(bomb.data(), bomb.size()), 1000U);
  EXPECT_EQ(Patch(MilesEncoding::kXor, bomb, live).status().code(), Code::kCorrupt);
}

// Whatever the content: libzstd itself looks only when it has to keep a window.
TEST(PatchedTensor, RefusesWindowsOver128MiB) {
  const Buffer live(300);
  const auto frame_of = [&](uint8_t window) {
    // Magic, descriptor (content size in two bytes, from 256), window, content size - 256, one last block: 300 times zero.
    const Buffer frame = {0x28, 0xb5, 0x2f, 0xfd, 0x40, window, 300 - 256, 0, 3 | (300 * 8 & 0xff), 300 * 8 >> 8, 0, 0};
    return Patch(MilesEncoding::kXor, frame, live).status();
  };
  constexpr int kLog27 = (27 - 10) << 3;
  EXPECT_TRUE(frame_of(kLog27).ok()) << frame_of(kLog27).message();
  EXPECT_THAT(frame_of(kLog27 + 1).message(), HasSubstr("window over 128 MiB"));
  EXPECT_THAT(frame_of((31 - 10) << 3).message(), HasSubstr("window over 128 MiB"));
}

TEST(PatchedTensor, RefusesFramesWithoutContentSize) {
  const Buffer live(1000);
  const std::unique_ptr<ZSTD_CCtx, ZstdContextDeleter> context(ZSTD_createCCtx());
  ZSTD_CCtx_setParameter(context.get(), ZSTD_c_contentSizeFlag, 0);
  Buffer frame(2000);
  frame.resize(ZSTD_compress2(context.get(), frame.data(), frame.size(), live.data(), live.size()));
  const Status status = Patch(MilesEncoding::kXor, frame, live).status();
  EXPECT_EQ(status.code(), Code::kCorrupt);
  EXPECT_THAT(status.message(), HasSubstr("content size"));
}

TEST(PatchedTensor, RefusesWhatIsNotExactlyOneFrame) {
  const Buffer live = RandomBytes(5, 1000);
  const Buffer frame = FrameOf(live);
  for (size_t length = 0; length < frame.size(); ++length) {
    EXPECT_EQ(Patch(MilesEncoding::kXor, ConstBytes(frame).first(length), live).status().code(), Code::kCorrupt) << length;
  }
  Buffer longer = frame;
  longer.push_back(0);
  EXPECT_EQ(Patch(MilesEncoding::kXor, longer, live).status().code(), Code::kCorrupt);
  Buffer twice = frame;
  AppendBytes(twice, frame);
  EXPECT_EQ(Patch(MilesEncoding::kXor, twice, live).status().code(), Code::kCorrupt);
  Buffer skippable(8);
  StoreLe<uint32_t>(skippable.data(), 0x184D2A50);
  AppendBytes(skippable, frame);
  EXPECT_EQ(Patch(MilesEncoding::kXor, skippable, live).status().code(), Code::kCorrupt);
}

TEST(PatchedTensor, VerifiesTheFramesOwnChecksum) {
  const Buffer live(1000);
  const std::unique_ptr<ZSTD_CCtx, ZstdContextDeleter> context(ZSTD_createCCtx());
  ZSTD_CCtx_setParameter(context.get(), ZSTD_c_checksumFlag, 1);
  Buffer frame(2000);
  frame.resize(ZSTD_compress2(context.get(), frame.data(), frame.size(), live.data(), live.size()));
  EXPECT_EQ(Patch(MilesEncoding::kXor, frame, live).value(), live);
  frame.back() ^= 1;
  EXPECT_EQ(Patch(MilesEncoding::kXor, frame, live).status().code(), Code::kCorrupt);
}

TEST(PatchedTensor, RefusesBrokenPositions) {
  const Buffer live(1000);
  const auto status_of = [&](const Buffer& content) {
    return Patch(MilesEncoding::kOverwrite, FrameOf(content), live).status();
  };
  EXPECT_THAT(status_of(OverwriteContent({5, 5}, {1, 2})).message(), HasSubstr("do not ascend"));
  EXPECT_THAT(status_of(OverwriteContent({6, 5}, {1, 2})).message(), HasSubstr("do not ascend"));
  EXPECT_THAT(status_of(OverwriteContent({5, 1000}, {1, 2})).message(), HasSubstr("outside the tensor"));
  EXPECT_THAT(status_of(OverwriteContent({0xffffffff}, {1})).message(), HasSubstr("outside the tensor"));
  EXPECT_EQ(status_of(OverwriteContent({5}, {})).code(), Code::kCorrupt);
  EXPECT_EQ(status_of(OverwriteContent({5}, {1, 2})).code(), Code::kCorrupt);
  EXPECT_EQ(status_of(OverwriteContent(std::vector<uint32_t>(1001), Buffer(1001))).code(), Code::kCorrupt);
  EXPECT_EQ(status_of({}).code(), Code::kCorrupt);
  EXPECT_EQ(status_of({0, 0, 0}).code(), Code::kCorrupt);
}

TEST(PatchedTensor, FlippedBitsNeverReadOutside) {
  const Buffer live = RandomBytes(6, 3000);
  Buffer mask(live.size());
  for (size_t i = 0; i < mask.size(); i += 41) mask[i] = 3;
  Buffer frame = FrameOf(mask);
  for (size_t bit = 0; bit < 8 * frame.size(); ++bit) {
    frame[bit / 8] ^= static_cast<uint8_t>(1 << (bit % 8));
    const Result<Buffer> news = Patch(MilesEncoding::kXor, frame, live);
    EXPECT_TRUE(!news.ok() || news->size() == live.size());
    frame[bit / 8] ^= static_cast<uint8_t>(1 << (bit % 8));
  }
}

}  // namespace
}  // namespace xorbit
