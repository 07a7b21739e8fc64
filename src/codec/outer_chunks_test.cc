// Chunks are undone when they are asked for and not before, a bounded number of them is kept, and damage names its chunk.
#include "codec/outer_chunks.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "codec/mask_format.h"
#include "codec/mask_outer.h"

namespace xorbit {
namespace {

using ::testing::HasSubstr;

// A stream of `byte_count` bytes, no two neighbouring chunks alike, and its chunks.
struct Stream {
  explicit Stream(uint64_t byte_count) : bytes(byte_count) {
    for (uint64_t i = 0; i < byte_count; ++i) bytes[i] = static_cast<uint8_t>(i * 31 + i / kOuterChunkBytes);
    OuterCompressor compressor(1, 1);
    EXPECT_TRUE(compressor.Add({bytes}).ok());
    EXPECT_TRUE(compressor.Finish().ok());
    records = compressor.TakeRecords();
    for (const Buffer& chunk : compressor.TakeChunks()) AppendBytes(body, chunk);
  }
  std::unique_ptr<OuterChunks> Open(ChunkCache* cache) const {
    return OuterChunks::Open(records, body, bytes.size(), cache).value();
  }

  Buffer bytes;
  Buffer records;
  Buffer body;
};

Buffer Read(const OuterChunks& chunks, uint64_t offset, uint64_t byte_count) {
  Buffer target(byte_count);
  EXPECT_TRUE(chunks.Read(offset, byte_count, target.data()).ok());
  return target;
}

TEST(OuterChunks, ReadsAnyRangeWhateverTheCacheHolds) {
  const Stream stream(3 * kOuterChunkBytes + 12'345);
  for (const size_t capacity : {1, 2, 64}) {
    ChunkCache cache(capacity);
    const auto chunks = stream.Open(&cache);
    for (const uint64_t offset : {uint64_t{0}, kOuterChunkBytes - 1, kOuterChunkBytes, 2 * kOuterChunkBytes + 7, uint64_t{5}}) {
      for (const uint64_t byte_count : {uint64_t{1}, uint64_t{1000}, kOuterChunkBytes + 3}) {
        const auto begin = stream.bytes.begin() + static_cast<ptrdiff_t>(offset);
        EXPECT_EQ(Read(*chunks, offset, byte_count), Buffer(begin, begin + static_cast<ptrdiff_t>(byte_count))) << offset;
      }
    }
    EXPECT_EQ(Read(*chunks, 0, stream.bytes.size()), stream.bytes);
  }
}

// Pieces of any lengths, copied or not, make the same chunks.
TEST(OuterChunks, AreCutAlikeHoweverTheStreamComes) {
  const Stream stream(5 * kOuterChunkBytes + 321);
  for (const uint64_t first_bytes :
       {uint64_t{0}, uint64_t{1}, kOuterChunkBytes - 1, kOuterChunkBytes, 3 * kOuterChunkBytes + 9}) {
    for (const uint64_t second_bytes : {uint64_t{5}, kOuterChunkBytes, 2 * kOuterChunkBytes + 1}) {
      OuterCompressor compressor(1, 2);
      const ConstBytes rest = ConstBytes(stream.bytes).subspan(first_bytes);
      EXPECT_TRUE(compressor.AddBytes(ConstBytes(stream.bytes).first(first_bytes)).ok());
      EXPECT_TRUE(compressor.Add({Buffer(rest.begin(), rest.begin() + static_cast<ptrdiff_t>(second_bytes))}).ok());
      EXPECT_TRUE(compressor.AddBytes(rest.subspan(second_bytes)).ok());
      EXPECT_TRUE(compressor.Finish().ok());
      EXPECT_EQ(compressor.TakeRecords(), stream.records);
      Buffer body;
      for (const Buffer& chunk : compressor.TakeChunks()) AppendBytes(body, chunk);
      EXPECT_EQ(body, stream.body);
    }
  }
}

// What a hostile payload can make us hold: as many chunks as the cache takes, however many segments there are.
TEST(OuterChunks, KeepsABoundedNumberOfChunks) {
  const Stream stream(8 * kOuterChunkBytes);
  ChunkCache cache(3);
  const auto one = stream.Open(&cache);
  EXPECT_EQ(cache.size(), 0U);  // opening undoes nothing
  {
    const auto other = stream.Open(&cache);
    for (uint64_t at = 0; at < stream.bytes.size(); at += kOuterChunkBytes) {
      Read(*one, at, 1);
      EXPECT_LE(cache.size(), 3U);
      Read(*other, at, 1);
      EXPECT_LE(cache.size(), 3U);
    }
  }
  EXPECT_EQ(cache.size(), 1U);  // the other's are gone with it
}

TEST(OuterChunks, KeepsTheChunksUsedLast) {
  ChunkCache cache(2);
  const auto first = cache.Borrow(7, 0);
  const auto second = cache.Borrow(7, 1);
  EXPECT_EQ(cache.Borrow(7, 0), first);
  cache.Borrow(7, 2);
  EXPECT_EQ(cache.Borrow(7, 0), first);
  EXPECT_NE(cache.Borrow(7, 1), second);
}

TEST(OuterChunks, DamageIsFoundWhereItIs) {
  Stream stream(3 * kOuterChunkBytes);
  const auto second = LoadLe<OuterRecord>(stream.records.data() + sizeof(OuterRecord));
  stream.body[second.offset] ^= 1;
  ChunkCache cache(4);
  const auto chunks = stream.Open(&cache);
  Buffer target(stream.bytes.size());
  EXPECT_TRUE(chunks->Read(0, kOuterChunkBytes, target.data()).ok());
  EXPECT_TRUE(chunks->Read(2 * kOuterChunkBytes, 10, target.data()).ok());
  for (int times = 0; times < 2; ++times) {
    const Status status = chunks->Read(kOuterChunkBytes - 1, 2, target.data());
    EXPECT_EQ(status.code(), Code::kCorrupt);
    EXPECT_THAT(status.message(), HasSubstr("outer chunk 1: does not start with a Zstd frame"));
  }
}

}  // namespace
}  // namespace xorbit
