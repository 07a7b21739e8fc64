// Plans and staging of mask updates: batches tile the frames and fit their slots, tiles tile the frames, and no damaged byte of
// a body is staged.
#include "backend/cuda/mask/mask_plan.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>

#include "backend/cuda/mask/inner_staging.h"
#include "backend/cuda/testing/random_update.h"
#include "base/testing/seed.h"
#include "codec/mask_codec.h"
#include "codec/mask_format.h"
#include "tensor/random_live_map.h"

namespace xorbit::cuda {
namespace {

testing::RandomUpdate MakeUpdate(uint64_t seed, CodecId codec) {
  constexpr uint64_t kMostElements = 5000;
  EncodeOptions options;
  options.frame_bytes = uint64_t{256} << seed % 4;
  return testing::MakeRandomUpdate(*MakeCpuBackend(), seed, kMostElements, codec, options).value();
}

// Inner streams of several chunks, in frames of all lengths.
testing::RandomUpdate MakeLongUpdate(uint64_t seed, CodecId codec) {
  constexpr uint64_t kMostElements = 6'000'000;
  EncodeOptions options;
  options.frame_bytes = uint64_t{4096} << 2 * (seed % 6);
  return testing::MakeRandomUpdate(*MakeCpuBackend(), seed, kMostElements, codec, options).value();
}

std::vector<RegionBounds> PlacesFor(const LiveMap& map) {
  std::vector<RegionBounds> places;
  for (const LiveRegion& region : map.regions()) places.push_back({4096, 4096 + region.byte_count});
  return places;
}

Result<std::unique_ptr<MaskPlan>> Plan(const testing::RandomUpdate& update, const LiveMap& map) {
  return PlanMasks(update.layout, update.payloads, map, PlacesFor(map));
}

TEST(MaskPlan, BatchesAndTilesCoverEveryFrame) {
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    const testing::RandomUpdate update = MakeUpdate(seed, CodecId::kLz4Zstd);
    const LiveMap map = CanonicalMap(update.layout);
    const std::unique_ptr<MaskPlan> plan = Plan(update, map).value();
    const uint64_t slot_bytes = uint64_t{65'536} << seed % 3;
    uint64_t frame_index = 0;
    uint64_t tile_index = 0;
    for (const MaskBatch& batch : PlanBatches(slot_bytes, plan.get())) {
      EXPECT_EQ(batch.frame_begin, frame_index);
      EXPECT_EQ(batch.tile_begin, tile_index);
      EXPECT_LE(batch.slot_bytes, slot_bytes);
      uint64_t used_bytes = 0;
      for (; frame_index < batch.frame_end; ++frame_index) {
        const FrameOnDevice& frame = plan->frames[frame_index];
        EXPECT_EQ(frame.first_tile, tile_index);
        EXPECT_EQ(frame.slot_offset % kMaskAlignment, 0U);
        EXPECT_GE(frame.slot_offset, used_bytes);
        used_bytes = frame.slot_offset + frame.mask_bytes;
        EXPECT_LE(used_bytes, batch.slot_bytes);
        for (; tile_index < plan->frame_of_tile.size() && plan->frame_of_tile[tile_index] == frame_index; ++tile_index)
          continue;
      }
      EXPECT_EQ(batch.tile_end, tile_index);
    }
    EXPECT_EQ(frame_index, plan->frames.size());
    EXPECT_EQ(tile_index, plan->frame_of_tile.size());
  }
}

TEST(MaskPlan, StagesEveryCodecAndNoDamagedByte) {
  for (const Codec* codec : MaskCodecs()) {
    SCOPED_TRACE(codec->name());
    testing::RandomUpdate update = MakeUpdate(3, codec->id());
    const LiveMap map = CanonicalMap(update.layout);
    const std::unique_ptr<MaskPlan> plan = Plan(update, map).value();
    Buffer staged(InnerStagingBytes(*plan));
    ASSERT_TRUE(StageInner(*plan, {.threads = 2}, staged).ok());
    PlaceInner(staged.data(), plan.get());
    for (uint64_t i = 0; i < plan->frames.size(); ++i) {
      EXPECT_GE(plan->frames[i].inner, staged.data());
      EXPECT_LE(plan->frames[i].inner + plan->frames[i].inner_bytes, staged.data() + staged.size());
    }
    Random random(1);
    for (int round = 0; round < 20; ++round) {
      const ConstBytes body = update.payloads.front().body;
      auto& byte = const_cast<uint8_t&>(body[Between(random, 0, body.size() - 1)]);
      byte ^= 0x10;
      EXPECT_EQ(StageInner(*plan, {.threads = 2}, staged).code(), Code::kCorrupt);
      byte ^= 0x10;
    }
  }
}

// Two buffers in turn; what a piece should no longer be read for is overwritten, and what is never written differs from it.
class TwoBuffers final : public InnerPieces {
 public:
  TwoBuffers(uint64_t buffer_bytes, uint64_t all_bytes)
      : buffers_{Buffer(buffer_bytes), Buffer(buffer_bytes)}, all_(all_bytes, 0xCD) {}

  Result<MutableBytes> Next() override {
    turn_ = 1 - turn_;
    std::ranges::fill(buffers_[turn_], 0xEE);
    return MutableBytes(buffers_[turn_]);
  }
  Status Take(uint64_t offset, ConstBytes piece) override {
    std::ranges::copy(piece, all_.begin() + static_cast<ptrdiff_t>(offset));
    ++taken_;
    return {};
  }
  const Buffer& all() const { return all_; }
  uint64_t taken() const { return taken_; }

 private:
  std::array<Buffer, 2> buffers_;
  Buffer all_;
  size_t turn_ = 0;
  uint64_t taken_ = 0;
};

TEST(InnerStaging, ByPiecesIsTheSame) {
  uint64_t most_pieces = 0;
  for (uint64_t seed = 1; seed <= TestRounds(12); ++seed) {
    const Codec& codec = *MaskCodecs()[seed % MaskCodecs().size()];
    SCOPED_TRACE("seed " + std::to_string(seed) + ", " + std::string(codec.name()));
    const testing::RandomUpdate update = MakeLongUpdate(seed, codec.id());
    const LiveMap map = CanonicalMap(update.layout);
    const std::unique_ptr<MaskPlan> plan = Plan(update, map).value();
    Buffer whole(InnerStagingBytes(*plan), 0xAB);
    ASSERT_TRUE(StageInner(*plan, {.threads = 2}, whole).ok());
    for (const uint64_t chunks : {1, 2, 64}) {
      const uint64_t piece_bytes = chunks * kOuterChunkBytes;
      TwoBuffers pieces(PieceBufferBytes(*plan, piece_bytes), whole.size());
      const Status status = StageInnerByPieces(*plan, {.threads = 2}, piece_bytes, &pieces);
      ASSERT_TRUE(status.ok()) << status.message();
      EXPECT_EQ(pieces.all(), whole);
      most_pieces = std::max(most_pieces, pieces.taken());
    }
  }
  EXPECT_GT(most_pieces, 4U);
}

TEST(InnerStaging, ByPiecesNamesWhatIsDamaged) {
  testing::RandomUpdate update = MakeLongUpdate(5, CodecId::kSnappy);
  const LiveMap map = CanonicalMap(update.layout);
  const std::unique_ptr<MaskPlan> plan = Plan(update, map).value();
  ASSERT_GT(plan->inner_bytes, kOuterChunkBytes);
  TwoBuffers pieces(PieceBufferBytes(*plan, kOuterChunkBytes), InnerStagingBytes(*plan));
  Random random(1);
  for (uint64_t round = 0; round < TestRounds(20); ++round) {
    const ConstBytes body = update.payloads.front().body;
    auto& byte = const_cast<uint8_t&>(body[Between(random, 0, body.size() - 1)]);
    byte ^= 0x10;
    EXPECT_EQ(StageInnerByPieces(*plan, {.threads = 2}, kOuterChunkBytes, &pieces).code(), Code::kCorrupt);
    // Nobody looked: what pre-flight does not find later was not damaged.
    EXPECT_TRUE(StageInnerByPieces(*plan, {.threads = 2, .checks_hashes = false}, kOuterChunkBytes, &pieces).ok());
    byte ^= 0x10;
  }
}

TEST(MaskPlan, RefusesPayloadsOfDifferentCodecs) {
  testing::RandomUpdate update = MakeUpdate(7, CodecId::kSnappy);
  const LiveMap map = CanonicalMap(update.layout);
  PayloadView sparse = update.payloads.front();
  sparse.info.codec = CodecId::kSparse;
  update.payloads.push_back(sparse);
  EXPECT_EQ(Plan(update, map).status().code(), Code::kUnsupported);
  update.payloads.back().info.codec = CodecId::kLz4;
  EXPECT_EQ(Plan(update, map).status().code(), Code::kUnsupported);
}

}  // namespace
}  // namespace xorbit::cuda
