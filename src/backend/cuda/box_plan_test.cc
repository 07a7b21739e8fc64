// Boxes, as the host plans them and a warp finds elements by them, against the general search.
#include "backend/cuda/box_plan.h"

#include <gtest/gtest.h>

#include "backend/cuda/box_finder.h"
#include "backend/cuda/testing/random_update.h"
#include "backend/cuda/testing/warp_emulator.h"
#include "backend/cuda/update_plan.h"
#include "base/unit.h"
#include "tensor/random_live_map.h"

namespace xorbit::cuda {
namespace {

// What one of several ranks holds, side by side in one region for each unit: its parts are its pieces.
LiveMap MapOfOwner(const Layout& layout, const std::vector<SegmentMap>& owner) {
  LiveMapSpec spec;
  for (const SegmentMap& segment : owner) {
    LiveRegion region{"region " + std::to_string(spec.regions.size()), segment.byte_count()};
    for (size_t i = 0; i < segment.parts().size(); ++i) {
      const Part& part = segment.parts()[i];
      PieceClass shape;
      shape.granule_bits = 8 * segment.unit_bytes();
      shape.digit_count = static_cast<uint32_t>(part.digits.size());
      uint64_t live_stride = 1;
      for (size_t d = part.digits.size(); d-- > 0;) {
        shape.digits[d] = {part.digits[d].count, part.digits[d].stride, live_stride};
        live_stride *= part.digits[d].count;
      }
      Piece piece;
      piece.tensor_index = part.tensor_index;
      piece.class_index = static_cast<uint32_t>(spec.classes.size());
      piece.region_index = static_cast<uint32_t>(spec.regions.size());
      piece.origin = part.origin;
      piece.live_origin = segment.part_start(i);
      spec.classes.push_back(shape);
      spec.pieces.push_back(piece);
    }
    spec.regions.push_back(std::move(region));
  }
  return LiveMap::Make(layout, std::move(spec)).value();
}

struct Tally {
  uint64_t tile_count = 0;
  uint64_t boxed_count = 0;
  uint64_t rowed_count = 0;
};

// Asks for random ascending elements of a tile, 32 at a time.
template <typename Unit>
void ExpectSamePlaces(const UpdateOnDevice& update, const SegmentOnDevice& segment, const TileContext& tile, Random& random) {
  std::vector<uint32_t> offsets;
  for (uint64_t offset = 0; offset <= tile.record.span; offset += Between(random, 1, 4)) {
    offsets.push_back(static_cast<uint32_t>(offset));
  }
  uint64_t wrong_count = 0;
  RunWarp([&] {
    BoxFinder<Unit> boxes(tile);
    for (size_t group = 0; group < offsets.size(); group += kWarpLanes) {
      const size_t last = std::min(group + kWarpLanes, offsets.size()) - 1;
      const uint32_t offset = offsets[std::min(group + Lane(), last)];
      const Place found = boxes.Find(offset, offsets[last]);
      const uint64_t element = tile.record.first + offset;
      const CopyRun run = FindRun(&update, &segment, element, 0, {0, 0});
      const uint64_t byte = (element - run.first) * sizeof(Unit);
      const bool is_present = run.live_address != 0;
      bool is_right = found.present == is_present;
      if (is_present) {
        is_right &= found.address == run.live_address + byte && found.tensor_byte == run.tensor_byte + byte &&
                    found.tensor_key == run.tensor_key;
      }
      if (!is_right) ++wrong_count;
    }
  });
  EXPECT_EQ(wrong_count, 0U) << "tile at " << tile.record.first;
}

void ExpectSamePlaces(const testing::RandomUpdate& made, const LiveMap& map, Random& random, Tally* tally) {
  std::vector<RegionBounds> regions;
  uint64_t begin = 4096;  // nothing is read there
  for (const LiveRegion& region : map.regions()) {
    regions.push_back({begin, begin + (region.byte_count + 7) / 8 * 8});
    begin = regions.back().end + 64;
  }
  const Result<UpdatePlan> plan = PlanUpdate(made.layout, made.payloads, map, regions);
  ASSERT_TRUE(plan.ok()) << plan.status().message();
  UpdateOnDevice update{};
  update.digits = plan->digits.data();
  update.track_starts = plan->live.track_starts.data();
  update.pieces = plan->live.pieces.data();
  update.classes = plan->live.classes.data();
  update.regions = plan->live.regions.data();
  for (const SegmentPlan& planned : plan->segments) {
    SegmentOnDevice segment = planned.device;
    segment.parts = planned.parts.data();
    segment.boxes = planned.boxes.data();
    for (const LiveBox& box : planned.boxes) tally->rowed_count += box.period != 0 ? 1 : 0;
    for (size_t i = 0; i < planned.starts.size(); ++i) {
      ++tally->tile_count;
      if (planned.starts[i].box_index == kNoBox) continue;
      ++tally->boxed_count;
      const auto record = LoadLe<TileRecord>(planned.segment->view.records.data() + i * sizeof(TileRecord));
      const TileContext tile{&update, &segment, record, planned.starts[i], nullptr};
      WithUnit(segment.unit_bytes, [&]<typename Unit>() { ExpectSamePlaces<Unit>(update, segment, tile, random); });
    }
  }
}

constexpr uint64_t kMaxElements = 3000;

TEST(BoxPlan, FindsWhatTheGeneralSearchFindsInAnyMap) {
  const auto backend = MakeCpuBackend();
  Tally tally;
  for (uint64_t seed = 1; seed <= 40; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    const testing::RandomUpdate made = testing::MakeRandomUpdate(*backend, seed, kMaxElements).value();
    Random random(seed);
    ExpectSamePlaces(made, RandomLiveMap(random, made.layout).Make(), random, &tally);
  }
  EXPECT_GT(tally.boxed_count, 20U);
  EXPECT_LT(tally.boxed_count, tally.tile_count);
}

// Trainers and samplers cut the same tensors, in the same way or in others.
TEST(BoxPlan, FindsWhatRanksHold) {
  const auto backend = MakeCpuBackend();
  Tally tally;
  for (uint64_t seed = 1; seed <= 60; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    const testing::RandomUpdate made = testing::MakeRandomUpdate(*backend, seed, kMaxElements).value();
    Random random(seed);
    const Split splits[] = {Split::kWhole, Split::kRange, Split::kColumn};
    const auto rank_count = static_cast<uint32_t>(Between(random, 1, 4));
    const auto ranks = PlanOwners(made.layout, rank_count, splits[Between(random, 0, 2)]).value();
    const std::vector<SegmentMap>& rank = ranks[Between(random, 0, rank_count - 1)];
    ExpectSamePlaces(made, MapOfOwner(made.layout, rank), random, &tally);
  }
  EXPECT_GT(tally.boxed_count, tally.tile_count / 2);
  EXPECT_GT(tally.rowed_count, 30U);
}

}  // namespace
}  // namespace xorbit::cuda
