// An update and its live memory on the host, and every kernel's work on emulated warps: what tests of device code run.
//
// No product code includes it.
#pragma once

#include <algorithm>
#include <array>
#include <vector>

#include "backend/cuda/binding_plan.h"
#include "backend/cuda/binding_tile.h"
#include "backend/cuda/bitmap_plan.h"
#include "backend/cuda/bitmap_tile.h"
#include "backend/cuda/report_of.h"
#include "backend/cuda/testing/warp_emulator.h"
#include "base/unit.h"

namespace xorbit::cuda::testing {

class EmulatedUpdate {
 public:
  // `places` as for PlanUpdate. Everything outlives it.
  EmulatedUpdate(const Layout& layout, std::span<const PayloadView> payloads, const LiveMap& map,
                 std::span<const RegionBounds> places, const PrepareOptions& options)
      : payloads_(payloads), options_(options) {
    Result<UpdatePlan> plan = PlanUpdate(layout, payloads, map, places);
    status_ = plan.status();
    if (!plan.ok()) return;
    plan_ = std::move(plan).value();
    for (const SegmentPlan& planned : plan_.segments) {
      SegmentOnDevice segment = planned.device;
      segment.body = planned.segment->view.body.data();
      segment.records = reinterpret_cast<const TileRecord*>(planned.segment->view.records.data());
      segment.tables = planned.tables.data();
      segment.parts = planned.parts.data();
      segment.boxes = planned.boxes.data();
      logs_.emplace_back(planned.segment->view.change_count);
      segment.old_values = reinterpret_cast<uint8_t*>(logs_.back().data());
      starts_.insert(starts_.end(), planned.starts.begin(), planned.starts.end());
      segments_.push_back(segment);
    }
    checked_ = CutToTiles(plan_, segments_, plan_.checked_tiles);
    cast_ = CutToTiles(plan_, segments_, plan_.cast_tiles);
    local_sums_.resize(plan_.tile_count);
    counted_sums_.resize(plan_.tile_count);
    ties_ = plan_.ties;
    ClearCounters();
    update_.starts = starts_.data();
    update_.local_sums = local_sums_.data();
    update_.counted_sums = counted_sums_.data();
    update_.digits = plan_.digits.data();
    update_.track_starts = plan_.live.track_starts.data();
    update_.pieces = plan_.live.pieces.data();
    update_.classes = plan_.live.classes.data();
    update_.counters = counters_.data();
    update_.regions = plan_.live.regions.data();
    update_.inverse = options.direction == Direction::kInverse ? 1 : 0;
    update_.partial = options.partial ? 1 : 0;
    for (uint32_t i = 0; i < kWordFactorCount; ++i) word_factors_[i] = WordFactorAt(i);
  }

  const Status& status() const { return status_; }
  const UpdatePlan& plan() const { return plan_; }
  const std::vector<PayloadCounters>& counters() const { return counters_; }

  void Preflight() {
    ForEachTile(segments_, []<typename Unit>(const TileTask& task) { PreflightTile<Unit, true>(task); });
  }
  // The kernel of shadows and aliases.
  void Bind(BindingStep step) {
    const std::span<const SegmentOnDevice> tiles = step == BindingStep::kCheck ? checked_ : cast_;
    const BindingsOnDevice bindings{plan_.live.shadows.data(), ties_.data()};
    ForEachTile(tiles.first(tiles.size() - 1),
                [&]<typename Unit>(const TileTask& task) { BindTile<Unit>(task, bindings, step); });
  }
  // Lays out tiles as PlanBitmaps says, in the memory that it asks for; tells how many tiles that are.
  uint64_t LayOutTiles(uint32_t bytes_per_change, uint64_t budget_bytes) {
    PlanBitmaps(bytes_per_change, budget_bytes, &plan_);
    starts_.clear();
    for (const SegmentPlan& planned : plan_.segments)
      starts_.insert(starts_.end(), planned.starts.begin(), planned.starts.end());
    bitmaps_.assign(plan_.bitmap_bytes + kBitmapAlignment, 0xa5);
    const uint64_t begin = RoundUpToLine(reinterpret_cast<uint64_t>(bitmaps_.data()));
    update_.bitmaps = reinterpret_cast<uint8_t*>(begin);
    update_.tile_count = plan_.tile_count;
    update_.bitmap_tile_count = plan_.bitmap_tile_count;
    ForEachTile(segments_, [&]<typename Unit>(const TileTask& task) { LayOutTile<Unit>(task, window_.data()); });
    ForEachTile(segments_, []<typename Unit>(const TileTask& task) { SumBitmapTile<Unit>(task); });
    return plan_.bitmap_tile_count;
  }
  bool window_is_clear() const {
    return std::all_of(window_.begin(), window_.end(), [](const WordVector& vector) { return vector.is_zero(); });
  }
  template <ApplyKind kKind>
  void Apply(bool expect_after) {
    ForEachTile(segments_, [&]<typename Unit>(const TileTask& task) {
      if constexpr (kKind != ApplyKind::kStore && kKind != ApplyKind::kRestore) {
        ApplyBitmapTile<Unit, kKind>(task, expect_after);
      }
      ApplyTile<Unit, kKind>(task, expect_after);
    });
  }

  // The first report of any payload, as a tile << 8 | TileError.
  uint64_t FirstCorrupt() const { return First(&PayloadCounters::first_corrupt); }
  uint64_t FirstRefused() const { return First(&PayloadCounters::first_refused); }
  // What reports and ties say since counters were cleared.
  Status Verdict() const {
    XORBIT_RETURN_IF_ERROR(StatusOfReports(plan_, counters_));
    return ties_.empty() ? Status() : StatusOfTies(plan_, ties_);
  }
  Result<PrepareReport> Report() const { return ReportOf(plan_, payloads_, counters_, counted_sums_, options_); }
  void ClearCounters() { counters_.assign(payloads_.size(), {kNoReport, kNoReport, 0, 0, 0}); }

 private:
  template <typename Body>
  void ForEachTile(std::span<const SegmentOnDevice> segments, Body&& body) {
    for (const SegmentOnDevice& segment : segments) {
      for (uint64_t i = 0; i < segment.record_count; ++i) {
        RunWarp([&] {
          const TileTask task = MakeTileTask(update_, segment, i, segment.tables, word_factors_.data());
          WithUnit(segment.unit_bytes, [&]<typename Unit>() { body.template operator()<Unit>(task); });
        });
      }
    }
  }
  uint64_t First(uint64_t PayloadCounters::*report) const {
    uint64_t first = kNoReport;
    for (const PayloadCounters& counter : counters_) first = std::min(first, counter.*report);
    return first;
  }

  std::span<const PayloadView> payloads_;
  PrepareOptions options_;
  Status status_;
  UpdatePlan plan_;
  std::vector<SegmentOnDevice> segments_;
  std::vector<SegmentOnDevice> checked_;     // with a sentinel
  std::vector<SegmentOnDevice> cast_;        // likewise
  std::vector<std::vector<uint64_t>> logs_;  // room for 8 bytes a change, whatever the unit
  std::vector<TileStart> starts_;
  std::vector<TileSums> local_sums_;
  std::vector<TileSums> counted_sums_;
  std::vector<PayloadCounters> counters_;
  std::vector<TieOnDevice> ties_;
  std::array<uint64_t, kWordFactorCount> word_factors_{};
  UpdateOnDevice update_{};
  Buffer bitmaps_;
  std::array<WordVector, kWindowBytes / kVectorBytes> window_{};
};

}  // namespace xorbit::cuda::testing
