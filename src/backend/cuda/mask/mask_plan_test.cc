// Plans and staging of mask updates: batches tile the frames and fit their slots, tiles tile the frames, and no damaged byte of
// a body is staged.
#include "backend/cuda/mask/mask_plan.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "backend/cuda/mask/inner_staging.h"
#include "backend/cuda/testing/random_update.h"
#include "codec/mask_codec.h"
#include "tensor/random_live_map.h"

namespace xorbit::cuda {
namespace {

constexpr uint64_t kMaxElements = 5000;

testing::RandomUpdate MakeUpdate(uint64_t seed, CodecId codec) {
  EncodeOptions options;
  options.frame_bytes = uint64_t{256} << seed % 4;
  return testing::MakeRandomUpdate(*MakeCpuBackend(), seed, kMaxElements, codec, options).value();
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
    ASSERT_TRUE(StageInner(*plan, 2, staged).ok());
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
      EXPECT_EQ(StageInner(*plan, 2, staged).code(), Code::kCorrupt);
      byte ^= 0x10;
    }
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
