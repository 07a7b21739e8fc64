// The inner encoders' streams, byte for byte through the stock libraries, over masks of every shape; and decoders that survive
// what is not such a stream.
#include "codec/mask_inner.h"
#include "base/testing/seed.h"

#include <gtest/gtest.h>
#include <lz4.h>
#include <snappy.h>
#include <zstd.h>

#include <cmath>
#include <memory>
#include <random>

namespace xorbit {
namespace {

using Random = std::mt19937_64;

// A dense mask and its non-zero bytes.
struct Mask {
  Buffer dense;
  std::vector<uint32_t> positions;
  Buffer values;

  explicit Mask(Buffer bytes) : dense(std::move(bytes)) {
    for (size_t i = 0; i < dense.size(); ++i) {
      if (dense[i] == 0) continue;
      positions.push_back(static_cast<uint32_t>(i));
      values.push_back(dense[i]);
    }
  }
  SparseMask sparse() const { return {dense.size(), positions, values.data()}; }
};

Mask RandomMask(Random& random, uint64_t mask_bytes, double density, uint64_t value_count) {
  Buffer dense(mask_bytes);
  std::bernoulli_distribution changed(density);
  for (uint8_t& byte : dense) {
    if (changed(random)) byte = static_cast<uint8_t>(1 + random() % value_count);
  }
  return Mask(std::move(dense));
}

// Long clusters of changes between long runs of zeros.
Mask ClusteredMask(Random& random, uint64_t mask_bytes) {
  Buffer dense(mask_bytes);
  for (uint64_t at = random() % 100; at < mask_bytes;) {
    for (uint64_t left = random() % 700; left > 0 && at < mask_bytes; --left) dense[at++] = static_cast<uint8_t>(random());
    at += random() % 3 == 0 ? random() % 12 : random() % 5000;
  }
  return Mask(std::move(dense));
}

// Exactly the room that the contract demands, so that a sanitizer sees any byte beyond.
Buffer Encoded(const InnerCodec& codec, const Mask& mask) {
  const auto room = std::make_unique<uint8_t[]>(codec.MaxInnerBytes(mask.dense.size()) + kInnerSlackBytes);
  Buffer scratch;
  const uint64_t byte_count = codec.Encode(mask.sparse(), 1, room.get(), &scratch).value();
  EXPECT_LE(byte_count, codec.MaxInnerBytes(mask.dense.size()));
  return Buffer(room.get(), room.get() + byte_count);
}

void ExpectStockSnappyReads(const Buffer& stream, const Buffer& dense) {
  std::string decoded;
  ASSERT_TRUE(snappy::Uncompress(reinterpret_cast<const char*>(stream.data()), stream.size(), &decoded));
  ASSERT_EQ(decoded.size(), dense.size());
  EXPECT_TRUE(std::equal(dense.begin(), dense.end(), reinterpret_cast<const uint8_t*>(decoded.data())));
}

// The end rules of the LZ4 block format, which liblz4's own decoder does not enforce in full.
void ExpectLz4EndRules(const Buffer& block, uint64_t mask_bytes) {
  uint64_t at = 0;
  uint64_t decoded = 0;
  const auto length = [&](uint64_t nibble) {
    if (nibble < 15) return nibble;
    uint64_t sum = nibble;
    uint8_t byte = 255;
    while (byte == 255) sum += byte = block.at(at++);
    return sum;
  };
  while (true) {
    const uint8_t token = block.at(at++);
    const uint64_t literal_bytes = length(token >> 4);
    at += literal_bytes;
    decoded += literal_bytes;
    if (at == block.size()) {
      EXPECT_GE(literal_bytes, std::min<uint64_t>(5, mask_bytes));
      break;
    }
    EXPECT_EQ(LoadLe<uint16_t>(block.data() + at), 1);
    at += 2;
    EXPECT_LE(decoded + 12, mask_bytes) << "a match starts too late";
    EXPECT_GE(decoded, 1U) << "a match before any byte";
    decoded += length(token & 15) + 4;
    ASSERT_LT(at, block.size()) << "a block ends in a match";
  }
  EXPECT_EQ(decoded, mask_bytes);
}

void ExpectStockLz4Reads(const Buffer& block, const Buffer& dense) {
  Buffer decoded(dense.size());
  ASSERT_EQ(LZ4_decompress_safe(reinterpret_cast<const char*>(block.data()), reinterpret_cast<char*>(decoded.data()),
                                static_cast<int>(block.size()), static_cast<int>(decoded.size())),
            static_cast<int>(dense.size()));
  EXPECT_EQ(decoded, dense);
  ExpectLz4EndRules(block, dense.size());
}

void ExpectStockZstdReads(const Buffer& frame, const Buffer& dense) {
  Buffer decoded(dense.size());
  ASSERT_EQ(ZSTD_decompress(decoded.data(), decoded.size(), frame.data(), frame.size()), dense.size());
  EXPECT_EQ(decoded, dense);
}

void ExpectEveryStockDecoderReads(const Mask& mask) {
  const Buffer snappy = Encoded(SnappyInner(), mask);
  ExpectStockSnappyReads(snappy, mask.dense);
  EXPECT_LE(snappy.size(), mask.dense.size() + 8) << "longer than one literal";
  const Buffer lz4 = Encoded(Lz4Inner(), mask);
  ExpectStockLz4Reads(lz4, mask.dense);
  EXPECT_LE(lz4.size(), mask.dense.size() + mask.dense.size() / 255 + 2) << "longer than one literal";
  const Buffer zstd = Encoded(ZstdInner(), mask);
  ExpectStockZstdReads(zstd, mask.dense);
  const std::pair<const InnerCodec*, const Buffer*> streams[] = {
      {&SnappyInner(), &snappy}, {&Lz4Inner(), &lz4}, {&ZstdInner(), &zstd}};
  for (const auto& [codec, stream] : streams) {
    Buffer decoded(mask.dense.size());
    ASSERT_TRUE(codec->Decode(*stream, decoded).ok());
    EXPECT_EQ(decoded, mask.dense);
  }
}

TEST(MaskInner, EveryTinyMaskIsReadByStockDecoders) {
  for (uint64_t mask_bytes = 1; mask_bytes <= 20; ++mask_bytes) {
    const uint64_t pattern_count = uint64_t{1} << std::min<uint64_t>(mask_bytes, 10);
    for (uint64_t pattern = 0; pattern < pattern_count; ++pattern) {
      Buffer front(mask_bytes);
      Buffer back(mask_bytes);
      for (uint64_t i = 0; i < mask_bytes; ++i) {
        if ((pattern >> i & 1) != 0) front[i] = back[mask_bytes - 1 - i] = static_cast<uint8_t>(i + 1);
      }
      ExpectEveryStockDecoderReads(Mask(front));
      ExpectEveryStockDecoderReads(Mask(back));
      if (HasFailure()) FAIL() << mask_bytes << " bytes, pattern " << pattern;
    }
  }
}

// One change at every place of masks whose zero runs cross every length class: 64-byte copies, 15 + 4, 255s.
TEST(MaskInner, EveryRunLengthIsReadByStockDecoders) {
  for (uint64_t mask_bytes : {21, 64, 70, 280, 600}) {
    for (uint64_t at = 0; at < mask_bytes; ++at) {
      Buffer dense(mask_bytes);
      dense[at] = 0x80;
      ExpectEveryStockDecoderReads(Mask(std::move(dense)));
      if (HasFailure()) FAIL() << mask_bytes << " bytes, change at " << at;
    }
  }
}

TEST(MaskInner, RandomMasksAreReadByStockDecoders) {
  const uint64_t seed = TestSeed();
  Random random(seed);
  for (int round = 0; round < 300; ++round) {
    const uint64_t mask_bytes = 1 + random() % (round % 10 == 0 ? 300'000 : 5000);
    const double density = std::pow(10.0, -static_cast<double>(random() % 5000) / 1000);
    ExpectEveryStockDecoderReads(RandomMask(random, mask_bytes, density, 1 + random() % 255));
    ExpectEveryStockDecoderReads(ClusteredMask(random, mask_bytes));
    if (HasFailure()) FAIL() << "seed " << seed << " round " << round;
  }
}

TEST(MaskInner, TheLargestFrameIsReadByStockDecoders) {
  Random random(1);
  ExpectEveryStockDecoderReads(RandomMask(random, uint64_t{4} << 20, 0.00085, 255));
  ExpectEveryStockDecoderReads(RandomMask(random, uint64_t{4} << 20, 1, 255));
  ExpectEveryStockDecoderReads(Mask(Buffer(uint64_t{4} << 20)));
}

// At the reference density a change costs what the formats make it cost: 3 + 3 a 64 zeros, or 6 + 1 a 255 zeros.
TEST(MaskInner, SparseMasksCostWhatTheFormatsAllow) {
  Random random(2);
  const Mask mask = RandomMask(random, uint64_t{1} << 20, 0.00085, 255);
  const uint64_t count = mask.positions.size();
  EXPECT_LE(Encoded(SnappyInner(), mask).size(), mask.dense.size() / 64 * 3 + 6 * count);
  EXPECT_LE(Encoded(Lz4Inner(), mask).size(), mask.dense.size() / 255 + 6 * count);
}

// Frames of other encoders are as good as ours.
TEST(MaskInner, ReadsWhatStockEncodersWrite) {
  Random random(3);
  const Mask mask = ClusteredMask(random, 50'000);
  const auto* bytes = reinterpret_cast<const char*>(mask.dense.data());
  Buffer decoded(mask.dense.size());
  std::string snappy;
  snappy::Compress(bytes, mask.dense.size(), &snappy);
  ASSERT_TRUE(SnappyInner().Decode(AsBytes(snappy), decoded).ok());
  EXPECT_EQ(decoded, mask.dense);
  std::string lz4(static_cast<size_t>(LZ4_compressBound(50'000)), '\0');
  lz4.resize(static_cast<size_t>(LZ4_compress_default(bytes, lz4.data(), 50'000, static_cast<int>(lz4.size()))));
  std::fill(decoded.begin(), decoded.end(), uint8_t{0xee});
  ASSERT_TRUE(Lz4Inner().Decode(AsBytes(lz4), decoded).ok());
  EXPECT_EQ(decoded, mask.dense);
}

TEST(MaskInner, RefusesOtherLengthsAndTrailingBytes) {
  Random random(4);
  const Mask mask = RandomMask(random, 1000, 0.01, 255);
  for (const InnerCodec* codec : {&SnappyInner(), &Lz4Inner(), &ZstdInner()}) {
    Buffer stream = Encoded(*codec, mask);
    Buffer decoded(1000);
    for (const uint64_t other : {999, 1001}) {
      Buffer wrong(other);
      EXPECT_EQ(codec->Decode(stream, wrong).code(), Code::kCorrupt);
    }
    EXPECT_EQ(codec->Decode(ConstBytes(stream).first(stream.size() - 1), decoded).code(), Code::kCorrupt);
    EXPECT_EQ(codec->Decode({}, decoded).code(), Code::kCorrupt);
    stream.push_back(0);
    EXPECT_EQ(codec->Decode(stream, decoded).code(), Code::kCorrupt);
  }
}

TEST(MaskInner, ZstdRefusesFramesThatAreNotOnePlainFrame) {
  Buffer decoded(100);
  Buffer skippable = {0x50, 0x2a, 0x4d, 0x18, 0, 0, 0, 0};
  EXPECT_EQ(ZstdInner().Decode(skippable, decoded).message(), "does not start with a Zstd frame");
  Buffer two(500);
  const Buffer content(100);
  const size_t one = ZSTD_compress(two.data(), two.size(), content.data(), content.size(), 1);
  std::memcpy(two.data() + one, two.data(), one);
  two.resize(2 * one);
  EXPECT_EQ(ZstdInner().Decode(two, decoded).message(), "holds more than one Zstd frame");
}

// Any damage is either an error or some other mask of the right length; a sanitizer watches the rest.
TEST(MaskInner, DamagedStreamsStayInBounds) {
  const uint64_t seed = TestSeed();
  Random random(seed);
  for (int round = 0; round < 3000; ++round) {
    const Mask mask = ClusteredMask(random, 1 + random() % 3000);
    for (const InnerCodec* codec : {&SnappyInner(), &Lz4Inner(), &ZstdInner()}) {
      Buffer stream = Encoded(*codec, mask);
      for (uint64_t flips = 1 + random() % 4; flips > 0; --flips)
        stream[random() % stream.size()] ^= static_cast<uint8_t>(1 << random() % 8);
      const auto exact = std::make_unique<uint8_t[]>(mask.dense.size());
      const Status status = codec->Decode(stream, {exact.get(), mask.dense.size()});
      EXPECT_TRUE(status.ok() || status.code() == Code::kCorrupt) << "seed " << seed;
    }
  }
}

}  // namespace
}  // namespace xorbit
