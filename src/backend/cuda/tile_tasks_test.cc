// Device code on emulated warps against the CPU: verdicts, sums, every way to write, on random updates and damaged ones.
#include "backend/cuda/tile_tasks.h"

#include <gtest/gtest.h>

#include "backend/cuda/testing/emulated_memory.h"
#include "backend/cuda/testing/emulated_update.h"
#include "backend/cuda/testing/random_update.h"
#include "tensor/random_live_map.h"

namespace xorbit::cuda {
namespace {

using testing::EmulatedMemory;
using testing::EmulatedUpdate;

constexpr uint64_t kMaxElements = 3000;

// Every fourth map is the canonical one.
LiveMap MakeMap(const Layout& layout, Random& random, uint64_t seed) {
  return seed % 4 == 0 ? CanonicalMap(layout) : RandomLiveMap(random, layout).Make();
}

TEST(TileTasks, GoThereAndBackByEveryKindOfWrite) {
  const auto backend = MakeCpuBackend();
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    const auto made = testing::MakeRandomUpdate(*backend, seed, kMaxElements);
    ASSERT_TRUE(made.ok()) << made.status().message();
    const testing::RandomUpdate& update = *made;
    const bool inverse = seed % 2 == 0;
    const RandomTensors& from = inverse ? *update.after : *update.before;
    const RandomTensors& to = inverse ? *update.before : *update.after;
    Random random(seed);
    EmulatedMemory live(MakeMap(update.layout, random, seed), random);
    live.Set(from);
    PrepareOptions options;
    options.direction = inverse ? Direction::kInverse : Direction::kForward;
    EmulatedUpdate emulated(update.layout, update.payloads, live.map(), live.regions(), options);
    ASSERT_TRUE(emulated.status().ok()) << emulated.status().message();
    emulated.Preflight();
    ASSERT_EQ(emulated.FirstCorrupt(), kNoReport);
    ASSERT_EQ(emulated.FirstRefused(), kNoReport);
    ASSERT_TRUE(live.Holds(from));
    for (size_t p = 0; p < update.payloads.size(); ++p) {
      const PayloadCounters& counters = emulated.counters()[p];
      const StateDigest change{counters.lane0_change, counters.lane1_change};
      EXPECT_EQ(change, inverse ? StateDigest{} - update.payloads[p].change() : update.payloads[p].change());
      const auto on_host = backend->Prepare(update.layout, {&update.payloads[p], 1}, live.memory(), options);
      ASSERT_TRUE(on_host.ok()) << on_host.status().message();
      EXPECT_EQ(counters.local_change_count, (*on_host)->report().local_change_count);
    }
    emulated.Apply<ApplyKind::kReturningXor>(false);
    EXPECT_TRUE(live.Holds(to));
    emulated.Apply<ApplyKind::kCompare>(true);
    emulated.Apply<ApplyKind::kXor>(false);
    EXPECT_TRUE(live.Holds(from));
    emulated.Apply<ApplyKind::kStore>(false);
    EXPECT_TRUE(live.Holds(to));
    emulated.Apply<ApplyKind::kRestore>(false);
    EXPECT_TRUE(live.Holds(from));
    emulated.Apply<ApplyKind::kCompare>(false);
    EXPECT_EQ(emulated.FirstCorrupt(), kNoReport);
    EXPECT_EQ(emulated.FirstRefused(), kNoReport);
  }
}

// Tiles that are read and written as vectors, beside parts of vectors that they share with their neighbours.
TEST(TileTasks, LayOutWhatIsDense) {
  const auto backend = MakeCpuBackend();
  uint64_t laid_out_count = 0;
  for (uint64_t seed = 1; seed <= 12; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    const testing::RandomUpdate update = testing::MakeRandomUpdate(*backend, seed, 2 * kMaxElements).value();
    Random random(seed);
    EmulatedMemory live(CanonicalMap(update.layout), random, /*is_aligned=*/true);
    live.Set(*update.before);
    EmulatedUpdate emulated(update.layout, update.payloads, live.map(), live.regions(), {});
    ASSERT_TRUE(emulated.status().ok()) << emulated.status().message();
    emulated.Preflight();
    uint64_t laid_out_here = emulated.LayOutTiles(1U << 20, ~uint64_t{0});
    if (seed % 3 == 0) {  // some of them
      const uint64_t budget = emulated.plan().bitmap_bytes / 2;
      const uint64_t all = laid_out_here;
      emulated.Preflight();  // for the sums of those that are not
      laid_out_here = emulated.LayOutTiles(1U << 20, budget);
      EXPECT_LE(emulated.plan().bitmap_bytes, budget);
      EXPECT_TRUE(laid_out_here < all || all == 0);
    }
    laid_out_count += laid_out_here;
    EXPECT_TRUE(emulated.window_is_clear());
    EXPECT_TRUE(live.Holds(*update.before));
    emulated.Apply<ApplyKind::kReturningXor>(false);
    EXPECT_TRUE(live.Holds(*update.after));
    emulated.Apply<ApplyKind::kCompare>(true);
    emulated.Apply<ApplyKind::kXor>(false);
    EXPECT_TRUE(live.Holds(*update.before));
    emulated.Apply<ApplyKind::kCompare>(false);
    EXPECT_EQ(emulated.FirstCorrupt(), kNoReport);
    EXPECT_EQ(emulated.FirstRefused(), kNoReport);
    if (laid_out_here == 0) continue;
    emulated.Apply<ApplyKind::kCompare>(true);  // over values that are not the target's
    EXPECT_NE(emulated.FirstRefused(), kNoReport);
    emulated.ClearCounters();
    emulated.Apply<ApplyKind::kReturningXor>(true);
    EXPECT_NE(emulated.FirstRefused(), kNoReport);
  }
  EXPECT_GT(laid_out_count, 10U);
}

// Whatever slices a launch is cut into, its first item is looked for in the right segment.
TEST(TileTasks, SlicesBeginInTheirSegment) {
  const auto backend = MakeCpuBackend();
  uint64_t later_count = 0;
  for (uint64_t seed = 1; seed <= 12; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    const testing::RandomUpdate update = testing::MakeRandomUpdate(*backend, seed, kMaxElements).value();
    const LiveMap map = CanonicalMap(update.layout);
    Random random(seed);
    const EmulatedMemory live(CanonicalMap(update.layout), random);
    const UpdatePlan plan = PlanUpdate(update.layout, update.payloads, map, live.regions()).value();
    for (uint64_t item = 0; item < plan.item_count; ++item) {
      const ItemRange range = ItemsOf(plan, item, plan.item_count);
      EXPECT_EQ(range.begin, item);
      EXPECT_EQ(range.end, plan.item_count);
      ASSERT_LT(range.segment_index, plan.segments.size());
      const SegmentOnDevice& segment = plan.segments[range.segment_index].device;
      EXPECT_GE(item, segment.first_item);
      EXPECT_LT((item - segment.first_item) * kWarpsPerBlock, segment.record_count);
      later_count += range.segment_index > 0 ? 1 : 0;
    }
  }
  EXPECT_GT(later_count, 10U);
}

TEST(TileTasks, RefuseAnotherState) {
  const auto backend = MakeCpuBackend();
  for (uint64_t seed = 1; seed <= 12; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    const testing::RandomUpdate update = testing::MakeRandomUpdate(*backend, seed, kMaxElements).value();
    uint64_t change_count = 0;
    for (const PayloadView& payload : update.payloads) change_count += payload.header.change_count;
    if (change_count == 0) continue;
    Random random(seed);
    EmulatedMemory live(MakeMap(update.layout, random, seed), random);
    live.Set(*update.after);
    EmulatedUpdate emulated(update.layout, update.payloads, live.map(), live.regions(), {});
    emulated.Preflight();
    EXPECT_EQ(emulated.FirstCorrupt(), kNoReport);
    EXPECT_NE(emulated.FirstRefused(), kNoReport);
  }
}

TEST(TileTasks, AcceptAndRefuseTheSameBytesAsTheHost) {
  const auto backend = MakeCpuBackend();
  uint64_t refused_count = 0;
  for (uint64_t seed = 1; seed <= 60; ++seed) {
    const testing::RandomUpdate update = testing::MakeRandomUpdate(*backend, seed, kMaxElements).value();
    Random random(seed);
    for (int i = 0; i < 6; ++i) {
      const Buffer& whole = update.payload_bytes[Between(random, 0, update.payload_bytes.size() - 1)];
      const auto [bytes, where] = testing::Damage(whole, random);
      SCOPED_TRACE("seed " + std::to_string(seed) + ", damaged at" + where);
      const Result<PayloadView> payload = ParsePayload(update.layout, bytes);
      if (!payload.ok()) continue;
      const testing::HostVerdict host = testing::Judge(*backend, *payload);
      EmulatedMemory live(CanonicalMap(update.layout), random);
      live.Set(*update.before);
      EmulatedUpdate emulated(update.layout, {&*payload, 1}, live.map(), live.regions(), {});
      ASSERT_EQ(emulated.status().ok(), host.head.ok());
      if (!host.head.ok()) continue;
      emulated.Preflight();
      EXPECT_EQ(emulated.FirstCorrupt() == kNoReport, host.tile.ok()) << host.tile.message();
      refused_count += host.tile.ok() ? 0 : 1;
    }
  }
  EXPECT_GT(refused_count, 20U);  // the damage did reach tiles
}

}  // namespace
}  // namespace xorbit::cuda
