// Frame decoders on emulated warps: every mask, by our encoders and the stock ones, comes back; damaged frames end, stay inside
// their mask, and are taken only where the stock decoder takes them, for the same bytes.
#include "backend/cuda/mask/frame_decode.h"

#include <gtest/gtest.h>

#include <array>

#include "backend/cuda/testing/marked_mask.h"
#include "backend/cuda/testing/random_mask.h"
#include "backend/cuda/testing/warp_emulator.h"
#include "base/testing/seed.h"

namespace xorbit::cuda {
namespace {

using Random = std::mt19937_64;

// A frame at some byte of memory that may be read in whole vectors, and exactly that.
class PlacedFrame {
 public:
  PlacedFrame(const Buffer& frame, uint64_t skew)
      : vectors_((skew + frame.size() + kVectorBytes - 1) / kVectorBytes, WordVector{{~0U, ~0U, ~0U, ~0U}}) {
    bytes_ = reinterpret_cast<uint8_t*>(vectors_.data()) + skew;
    std::copy(frame.begin(), frame.end(), bytes_);
  }
  const uint8_t* bytes() const { return bytes_; }

 private:
  std::vector<WordVector> vectors_;
  uint8_t* bytes_;
};

constexpr uint8_t kUntouched = 0xa5;

struct Decoded {
  FrameError error = FrameError::kNone;
  Buffer mask;
};

// Nothing is marked behind the mask, and what is not marked nobody has written.
void ExpectMarks(const Buffer& slot, uint64_t mask_bytes, const std::vector<uint32_t>& groups) {
  for (uint64_t group = 0; group < 32 * groups.size(); ++group) {
    if ((groups[group / 32] >> group % 32 & 1) != 0) {
      ASSERT_LT(group * kGroupBytes, mask_bytes) << "group " << group;
      continue;
    }
    for (uint64_t i = 0; i < kGroupBytes; ++i) ASSERT_EQ(slot[group * kGroupBytes + i], kUntouched) << "group " << group;
  }
}

Decoded Decode(InnerKind kind, const Buffer& frame, uint64_t mask_bytes, uint64_t skew) {
  const PlacedFrame placed(frame, skew);
  Decoded decoded;
  std::array<WordVector, kRingBytes / kVectorBytes> ring;
  std::vector<uint32_t> groups((mask_bytes + kGroupWordBytes - 1) / kGroupWordBytes);
  Buffer slot(groups.size() * kGroupWordBytes, kUntouched);
  const auto inner_bytes = static_cast<uint32_t>(frame.size());
  const auto length = static_cast<uint32_t>(mask_bytes);
  RunWarp([&] {
    const FrameError error =
        kind == InnerKind::kSnappy
            ? DecodeFrame<InnerKind::kSnappy>(placed.bytes(), inner_bytes, slot.data(), length, groups.data(), ring.data())
            : DecodeFrame<InnerKind::kLz4>(placed.bytes(), inner_bytes, slot.data(), length, groups.data(), ring.data());
    if (Lane() == 0) decoded.error = error;
  });
  ExpectMarks(slot, mask_bytes, groups);
  decoded.mask = testing::MarkedMask(ConstBytes(slot).first(mask_bytes), groups);
  return decoded;
}

class FrameDecode : public ::testing::TestWithParam<InnerKind> {};

TEST_P(FrameDecode, ReadsWhateverStandardEncodersWrite) {
  const uint64_t seed = TestSeed();
  SCOPED_TRACE("seed " + std::to_string(seed));
  Random random(seed);
  for (int round = 0; round < 300; ++round) {
    const uint64_t mask_bytes = random() % (round % 10 == 0 ? 100'000 : 3000) + 1;
    const Buffer mask = testing::RandomMaskBytes(random, mask_bytes);
    for (const Buffer& frame : {testing::EncodeMaskBytes(GetParam(), mask), testing::EncodeByStockLibrary(GetParam(), mask)}) {
      const Decoded decoded = Decode(GetParam(), frame, mask_bytes, random() % kVectorBytes);
      ASSERT_EQ(decoded.error, FrameError::kNone) << "round " << round;
      ASSERT_EQ(decoded.mask, mask) << "round " << round;
    }
  }
}

TEST_P(FrameDecode, TakesDamagedFramesOnlyForWhatTheStockDecoderReads) {
  const uint64_t seed = TestSeed();
  SCOPED_TRACE("seed " + std::to_string(seed));
  Random random(seed);
  int refused = 0;
  for (int round = 0; round < 1500; ++round) {
    const Buffer mask = testing::RandomMaskBytes(random, random() % 2000 + 1);
    Buffer frame =
        random() % 2 == 0 ? testing::EncodeMaskBytes(GetParam(), mask) : testing::EncodeByStockLibrary(GetParam(), mask);
    testing::DamageFrame(random, &frame);
    const Decoded decoded = Decode(GetParam(), frame, mask.size(), random() % kVectorBytes);
    Buffer want(mask.size());
    const bool is_valid = testing::CodecOf(GetParam()).Decode(frame, want).ok();
    refused += decoded.error == FrameError::kNone ? 0 : 1;
    // liblz4 takes a distance of 0, which the format forbids, and refuses matches that end too late, which do no harm.
    const bool is_taken = decoded.error == FrameError::kNone;
    const bool may_differ = GetParam() == InnerKind::kLz4 && (decoded.error == FrameError::kDistance || is_taken);
    ASSERT_TRUE(is_taken == is_valid || may_differ) << "round " << round;
    ASSERT_TRUE(!is_taken || !is_valid || decoded.mask == want) << "round " << round;
  }
  EXPECT_GT(refused, 100);
}

INSTANTIATE_TEST_SUITE_P(Kinds, FrameDecode, ::testing::Values(InnerKind::kSnappy, InnerKind::kLz4),
                         [](const auto& kind) { return kind.param == InnerKind::kSnappy ? "Snappy" : "Lz4"; });

}  // namespace
}  // namespace xorbit::cuda
