// Device code on emulated warps against the CPU: verdicts, sums, every way to write, on random updates and damaged ones.
#include "backend/cuda/tile_tasks.h"

#include <gtest/gtest.h>

#include "backend/cuda/testing/random_update.h"
#include "backend/cuda/testing/warp_emulator.h"
#include "backend/cuda/update_plan.h"
#include "base/unit.h"

namespace xorbit::cuda {
namespace {

// An update and its live memory, all of it on the host.
class EmulatedUpdate {
 public:
  EmulatedUpdate(const Layout& layout, std::span<const PayloadView> payloads, std::span<const MutableBytes> live,
                 bool inverse) {
    std::vector<RegionBounds> regions;
    for (const MutableBytes& tensor : live) {
      const auto begin = reinterpret_cast<uint64_t>(tensor.data());
      regions.push_back({begin, begin + tensor.size()});
    }
    Result<UpdatePlan> plan = PlanUpdate(layout, payloads, regions);
    status_ = plan.status();
    if (!plan.ok()) return;
    plan_ = std::move(plan).value();
    for (SegmentPlan& segment : plan_.segments) {
      segment.device.body = segment.segment->view.body.data();
      segment.device.records = reinterpret_cast<const TileRecord*>(segment.segment->view.records.data());
      segment.device.tables = segment.tables.data();
      segment.device.spans = segment.spans.data();
      logs_.emplace_back(segment.segment->view.change_count);
      segment.device.old_values = reinterpret_cast<uint8_t*>(logs_.back().data());
      starts_.insert(starts_.end(), segment.starts.begin(), segment.starts.end());
    }
    sums_.resize(plan_.tile_count);
    counters_.assign(payloads.size(), {kNoReport, kNoReport, 0, 0, 0});
    update_.starts = starts_.data();
    update_.sums = sums_.data();
    update_.counters = counters_.data();
    update_.regions = plan_.regions.data();
    update_.inverse = inverse ? 1 : 0;
    for (uint32_t i = 0; i < kWordFactorCount; ++i) word_factors_[i] = WordFactorAt(i);
  }

  const Status& status() const { return status_; }
  const std::vector<PayloadCounters>& counters() const { return counters_; }

  void Preflight() {
    ForEachTile([]<typename Unit>(const TileTask& task) { PreflightTile<Unit, true>(task); });
  }
  template <ApplyKind kKind>
  void Apply(bool expect_after) {
    ForEachTile([&]<typename Unit>(const TileTask& task) { ApplyTile<Unit, kKind>(task, expect_after); });
  }
  // The first report of any payload, as a tile << 8 | TileError.
  uint64_t FirstCorrupt() const { return First(&PayloadCounters::first_corrupt); }
  uint64_t FirstRefused() const { return First(&PayloadCounters::first_refused); }

 private:
  template <typename Body>
  void ForEachTile(Body&& body) {
    for (const SegmentPlan& segment : plan_.segments) {
      for (uint64_t i = 0; i < segment.device.record_count; ++i) {
        RunWarp([&] {
          const TileTask task = MakeTileTask(update_, segment.device, i, segment.device.tables, word_factors_.data());
          WithUnit(segment.device.unit_bytes, [&]<typename Unit>() { body.template operator()<Unit>(task); });
        });
      }
    }
  }
  uint64_t First(uint64_t PayloadCounters::*report) const {
    uint64_t first = kNoReport;
    for (const PayloadCounters& counter : counters_) first = std::min(first, counter.*report);
    return first;
  }

  Status status_;
  UpdatePlan plan_;
  std::vector<std::vector<uint64_t>> logs_;  // room for 8 bytes a change, whatever the unit
  std::vector<TileStart> starts_;
  std::vector<TileSums> sums_;
  std::vector<PayloadCounters> counters_;
  std::array<uint64_t, kWordFactorCount> word_factors_{};
  UpdateOnDevice update_{};
};

bool SameBytes(const RandomTensors& a, const RandomTensors& b) {
  const auto x = a.bytes();
  const auto y = b.bytes();
  for (size_t i = 0; i < x.size(); ++i) {
    if (!std::equal(x[i].begin(), x[i].end(), y[i].begin(), y[i].end())) return false;
  }
  return true;
}

constexpr uint64_t kMaxElements = 3000;

TEST(TileTasks, GoThereAndBackByEveryKindOfWrite) {
  const auto backend = MakeCpuBackend();
  for (uint64_t seed = 1; seed <= 18; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    const auto made = testing::MakeRandomUpdate(*backend, seed, kMaxElements);
    ASSERT_TRUE(made.ok()) << made.status().message();
    const testing::RandomUpdate& update = *made;
    const bool inverse = seed % 2 == 0;
    const RandomTensors& from = inverse ? *update.after : *update.before;
    const RandomTensors& to = inverse ? *update.before : *update.after;
    RandomTensors live = from;
    EmulatedUpdate emulated(update.layout, update.payloads, live.mutable_bytes(), inverse);
    ASSERT_TRUE(emulated.status().ok()) << emulated.status().message();
    emulated.Preflight();
    ASSERT_EQ(emulated.FirstCorrupt(), kNoReport);
    ASSERT_EQ(emulated.FirstRefused(), kNoReport);
    ASSERT_TRUE(SameBytes(live, from));
    for (size_t p = 0; p < update.payloads.size(); ++p) {
      const PayloadCounters& counters = emulated.counters()[p];
      const StateDigest change{counters.lane0_change, counters.lane1_change};
      EXPECT_EQ(change, inverse ? StateDigest{} - update.payloads[p].change() : update.payloads[p].change());
      EXPECT_EQ(counters.local_change_count, update.payloads[p].header.change_count);
    }
    emulated.Apply<ApplyKind::kReturningXor>(false);
    EXPECT_TRUE(SameBytes(live, to));
    emulated.Apply<ApplyKind::kCompare>(true);
    emulated.Apply<ApplyKind::kXor>(false);
    EXPECT_TRUE(SameBytes(live, from));
    emulated.Apply<ApplyKind::kStore>(false);
    EXPECT_TRUE(SameBytes(live, to));
    emulated.Apply<ApplyKind::kRestore>(false);
    EXPECT_TRUE(SameBytes(live, from));
    emulated.Apply<ApplyKind::kCompare>(false);
    EXPECT_EQ(emulated.FirstCorrupt(), kNoReport);
    EXPECT_EQ(emulated.FirstRefused(), kNoReport);
  }
}

TEST(TileTasks, RefuseAnotherState) {
  const auto backend = MakeCpuBackend();
  for (uint64_t seed = 1; seed <= 12; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    const testing::RandomUpdate update = testing::MakeRandomUpdate(*backend, seed, kMaxElements).value();
    uint64_t change_count = 0;
    for (const PayloadView& payload : update.payloads) change_count += payload.header.change_count;
    if (change_count == 0) continue;
    RandomTensors live = *update.after;
    EmulatedUpdate emulated(update.layout, update.payloads, live.mutable_bytes(), false);
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
      RandomTensors live = *update.before;
      EmulatedUpdate emulated(update.layout, {&*payload, 1}, live.mutable_bytes(), false);
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
