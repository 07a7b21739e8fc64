// The sender's device code on an emulated warp, compared with the CPU's encoder.
#include "backend/cuda/send_segment.h"

#include <gtest/gtest.h>

#include <cstring>

#include "backend/cpu/cpu_backend.h"
#include "backend/cuda/count_tile.h"
#include "backend/cuda/diff_line.h"
#include "backend/cuda/pack_tile.h"
#include "backend/cuda/send_memory.h"
#include "backend/cuda/testing/warp_emulator.h"
#include "base/unit.h"
#include "codec/change_digest.h"
#include "tensor/random_model.h"

namespace xorbit::cuda {
namespace {

// Launches as loops over one emulated warp; device memory is the host's.
class EmulatedStages final : public SendStages {
 public:
  EmulatedStages(const SendPlan& plan, uint64_t change_count)
      : plan_(&plan), memory_bytes_(PlaceSend(plan, change_count, nullptr).used_bytes + 256, 0xcc) {
    const uint64_t begin = DivideRoundUp(reinterpret_cast<uint64_t>(memory_bytes_.data()), uint64_t{256}) * 256;
    memory_ = PlaceSend(plan, change_count, reinterpret_cast<uint8_t*>(begin));
    std::copy(plan.strips.begin(), plan.strips.end(), memory_.strips);
    std::copy(plan.spans.begin(), plan.spans.end(), memory_.spans);
    for (uint32_t i = 0; i < kWordFactorCount; ++i) word_factors_[i] = WordFactorAt(i);
  }
  const SendMemory& memory() const { return memory_; }

  Status FindChanges() override {
    std::memset(memory_.cleared, 0, memory_.cleared_bytes);
    WithUnit(plan_->unit_bytes, [&]<typename Unit>() {
      StoreCursor cursors[kWarpLanes];  // each lane's own, as registers are
      for (uint64_t i = 0; i < device().strip_count * kLinesPerStrip; ++i) {
        RunWarp([&] { DiffLine<Unit>(device(), i, &cursors[Lane()]); });
      }
      for (uint64_t i = 0; i < device().group_count; ++i) RunWarp([&] { SumGroup(device(), i); });
      ScanGroups();
      for (uint64_t i = 0; i < device().group_count; ++i) RunWarp([&] { GatherGroup<Unit>(device(), i); });
    });
    for (uint64_t w = 0; w < plan_->window_count(); ++w) {
      const uint64_t elements = WindowElementsAt(plan_->element_count, w);
      if (IsDenseWindow(elements, device().window_counts[w], plan_->unit_bytes)) device().counters->has_dense_window = 1;
    }
    return CountAgain();
  }
  Status CountAgain() override {
    std::memset(device().histograms, 0, sizeof(SendHistograms));
    std::vector<uint32_t> counts(size_t{kMostTables} * kValueSymbols);
    WithUnit(plan_->unit_bytes, [&]<typename Unit>() {
      const uint64_t tile_count = TileCountOf(device());
      for (uint64_t i = 0; i < tile_count; ++i) RunWarp([&] { CountTile<Unit>(device(), i, counts.data()); });
    });
    for (size_t i = 0; i < counts.size(); ++i) device().histograms->counts[i / kValueSymbols][i % kValueSymbols] = counts[i];
    return {};
  }
  Status ReadCounts(SendCounters* counters, SendHistograms* histograms) override {
    *counters = *device().counters;
    *histograms = *device().histograms;
    return {};
  }
  Status ReadWindowCounts(std::vector<uint32_t>* window_counts) override {
    window_counts->assign(device().window_counts, device().window_counts + plan_->window_count());
    return {};
  }
  Status SetTiles(std::span<const SendTile> tiles) override {
    std::copy(tiles.begin(), tiles.end(), memory_.tiles);
    memory_.device.tiles = memory_.tiles;
    memory_.device.tile_count = tiles.size();
    return {};
  }
  Status Encode(const SendTablesPlan& tables) override {
    SendCounters& counters = *device().counters;
    counters.sparse_count = counters.sparse_saved_bytes = counters.dense_count = counters.dense_saved_bytes = 0;
    counters.lane0_change = counters.lane1_change = counters.unsplit_count = 0;
    memory_.device.tables = tables.set;
    WithUnit(plan_->unit_bytes, [&]<typename Unit>() {
      const uint64_t tile_count = TileCountOf(device());
      EncodeWarpMemory warp{};
      for (uint64_t i = 0; i < tile_count; ++i) {
        RunWarp([&] { EncodeTile<Unit>(device(), i, tables.tables.data(), word_factors_, &warp); });
      }
      uint64_t offset = 0;
      for (uint64_t i = 0; i < tile_count; ++i) {
        device().records[i].offset = offset;
        offset += device().codes[i].byte_count;
      }
      counters.body_bytes = offset;
      for (uint64_t i = 0; i < tile_count; ++i) RunWarp([&] { PackTile<Unit>(device(), i, &warp); });
    });
    return {};
  }
  Status ReadTotals(SendCounters* counters) override {
    *counters = *device().counters;
    return {};
  }
  Status ReadRecords(std::vector<TileRecord>* records) override {
    records->assign(device().records, device().records + TileCountOf(device()));
    return {};
  }

 private:
  const SendOnDevice& device() const { return memory_.device; }
  void ScanGroups() {
    uint64_t sum = 0;
    for (uint64_t i = 0; i <= device().group_count; ++i) sum += std::exchange(device().group_starts[i], sum);
    device().counters->change_count = sum;
  }

  const SendPlan* plan_;
  std::vector<uint8_t> memory_bytes_;
  SendMemory memory_;
  uint64_t word_factors_[kWordFactorCount];
};

Result<EncodedSegment> EncodeEmulated(const SendPlan& plan, uint64_t room) {
  EmulatedStages stages(plan, room);
  XORBIT_ASSIGN_OR_RETURN(const SentSegment sent, EncodeSegment(plan, stages.memory().room, &stages));
  const auto* records = reinterpret_cast<const uint8_t*>(stages.memory().device.records);
  return ToEncodedSegment(sent, plan.unit_bytes, {records, sent.record_count * sizeof(TileRecord)},
                          {stages.memory().device.body, sent.body_bytes});
}

Buffer BodyOf(const EncodedSegment& segment) {
  Buffer body;
  for (const Buffer& piece : segment.body) AppendBytes(body, piece);
  return body;
}

void ExpectSame(const EncodedSegment& want, const EncodedSegment& got) {
  EXPECT_EQ(want.change_count, got.change_count);
  EXPECT_EQ(want.record_count, got.record_count);
  EXPECT_EQ(want.change, got.change);
  EXPECT_EQ(want.tables, got.tables);
  EXPECT_EQ(want.records, got.records);
  EXPECT_EQ(BodyOf(want), BodyOf(got));
  EXPECT_EQ(want.cuts, got.cuts);
}

void CheckSeed(uint64_t seed) {
  SCOPED_TRACE("seed " + std::to_string(seed));
  Random random(seed);
  const Layout layout = RandomLayout(random, 6, 20'000);
  RandomTensors before(random, layout);
  RandomTensors after(random, layout);
  after.CopyFrom(before);
  const uint64_t densities[] = {0, 1, 10, 100, 500, 700, 950, 1000};
  after.Mutate(random, layout, densities[seed % 8]);
  const std::vector<uint64_t> keys = TensorKeysOf(layout);
  const auto backend = MakeCpuBackend();
  for (const SegmentMap& map : RandomSegments(random, layout)) {
    const SegmentBytes olds = SegmentBytes::InTensors(map, before.bytes());
    const SegmentBytes news = SegmentBytes::InTensors(map, after.bytes());
    const Result<EncodedOwner> want =
        backend->EncodeDiff(layout, {&map, 1}, {.bytes = {&olds, 1}}, {&news, 1}, CodecId::kSparse, {});
    ASSERT_TRUE(want.ok()) << want.status().message();
    const SendPlan plan = PlanSend(map, keys, olds, news);
    const Result<EncodedSegment> got = EncodeEmulated(plan, map.element_count());
    ASSERT_TRUE(got.ok()) << got.status().message();
    ExpectSame(want->segments[0], *got);
    if (testing::Test::HasFailure()) return;
  }
}

TEST(SendSegment, EqualsTheCpusBytes) {
  for (uint64_t seed = 1; seed <= 24 && !HasFailure(); ++seed) CheckSeed(seed);
}

TEST(SendSegment, SaysHowMuchRoomItNeeds) {
  Random random(7);
  const Layout layout = RandomLayout(random, 6, 20'000);
  RandomTensors before(random, layout);
  RandomTensors after(random, layout);
  after.CopyFrom(before);
  after.Mutate(random, layout, 500);
  const std::vector<uint64_t> keys = TensorKeysOf(layout);
  for (const SegmentMap& map : RandomSegments(random, layout)) {
    if (map.element_count() < 5000) continue;
    const SendPlan plan =
        PlanSend(map, keys, SegmentBytes::InTensors(map, before.bytes()), SegmentBytes::InTensors(map, after.bytes()));
    const Result<EncodedSegment> got = EncodeEmulated(plan, 100);
    EXPECT_EQ(got.status().code(), Code::kUsage) << got.status().message();
  }
}

TEST(SendPlan, StripsCoverTheSegmentWithinWindowsAndBorders) {
  Random random(3);
  for (int round = 0; round < 50; ++round) {
    const Layout layout = RandomLayout(random, 6, 300'000);
    const RandomTensors tensors(random, layout);
    for (const SegmentMap& map : RandomSegments(random, layout)) {
      const SegmentBytes bytes = SegmentBytes::InTensors(map, tensors.bytes());
      const SendPlan plan = PlanSend(map, TensorKeysOf(layout), bytes, bytes);
      uint64_t at = 0;
      for (const Strip& strip : plan.strips) {
        ASSERT_EQ(strip.first_element, at);
        at += strip.element_count;
        EXPECT_EQ(strip.first_element / kWindowElements, (at - 1) / kWindowElements);
        const uint64_t head = HeadBytesOf(strip.old_address, map.unit_bytes());
        EXPECT_LE(head + strip.element_count * map.unit_bytes(), kStripBytes);
      }
      EXPECT_EQ(at, map.element_count());
    }
  }
}

TEST(SendPlan, HalvesTilesThatDigestsDoNotTellApart) {
  const std::vector<SendTile> tiles = {{0, 4096, 0}, {4096, 5, kTileFollows}, {4101, 1, kTileFollows}};
  std::vector<TileRecord> records(3);
  records[0].after = 1;
  const std::vector<SendTile> split = SplitTiles(tiles, records);
  ASSERT_EQ(split.size(), 4U);
  EXPECT_EQ(split[1].change_count, 2U);
  EXPECT_EQ(split[2].first_change, 4098U);
  EXPECT_EQ(split[2].change_count, 3U);
  EXPECT_EQ(split[3].first_change, 4101U);
}

}  // namespace
}  // namespace xorbit::cuda
