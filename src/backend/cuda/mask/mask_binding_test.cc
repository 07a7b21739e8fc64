// Shadows, kept copies and aliases under updates of mask codecs, on emulated warps against the CPU backend, on the same memory.
#include <gtest/gtest.h>

#include "backend/cuda/binding_plan.h"
#include "backend/cuda/mask/mask_report.h"
#include "backend/cuda/testing/bound_update.h"
#include "backend/cuda/testing/emulated_masks.h"

namespace xorbit::cuda {
namespace {

using testing::BoundUpdate;
using testing::EmulatedDecoder;
using testing::EmulatedMasks;

constexpr uint64_t kMaxElements = 1200;
constexpr uint64_t kSlotBytes = 65'536;

// An update by a mask codec, and live memory with bindings in which the CPU and emulated warps prepare it.
class BoundMasks {
 public:
  BoundMasks(uint64_t seed, bool tears) : random_(seed) {
    EncodeOptions encoding;
    encoding.frame_bytes = uint64_t{64} << seed % 5;
    const CodecId codec = seed % 2 == 0 ? CodecId::kSnappy : CodecId::kLz4Zstd;
    bound_ = testing::MakeBoundUpdate(*backend_, seed, kMaxElements, tears, codec, encoding).value();
    options_.partial = seed % 3 == 0;
    LiveMapSpec spec = options_.partial ? testing::OneRankOf(random_, bound_.spec) : bound_.spec;
    auto map = LiveMap::Make(layout(), std::move(spec));
    EXPECT_TRUE(map.ok()) << map.status().message();
    live_ = std::make_unique<RandomLiveMemory>(random_, layout(), std::move(map).value());
    live_->Fill(bound_.update.before->bytes());
    auto plan = PlanMasks(layout(), payloads(), live_->map(), PlacesOf(live_->memory()));
    if (!plan.ok()) return;  // half bytes in regions that do not end on a word
    plan_ = std::move(plan).value();
    device_.emplace(plan_.get(), kSlotBytes, 2, options_.direction, options_.partial);
    pipeline_.emplace(*plan_, &*device_, decoders_);
  }

  bool is_refused() const { return plan_ == nullptr; }
  Buffer Snapshot() const { return live_->Snapshot(); }
  MaskPipeline& pipeline() { return *pipeline_; }
  const MaskPlan& plan() const { return *plan_; }
  bool is_torn() const { return bound_.torn.has_value() && !options_.partial; }

  Result<PrepareReport> Preflight() {
    MaskFindings findings;
    XORBIT_RETURN_IF_ERROR(pipeline_->Preflight(&findings));
    auto report = ReportOfMasks(*plan_, payloads(), findings.counters, device_->counted_sums(), options_);
    XORBIT_RETURN_IF_ERROR(report.status());
    XORBIT_RETURN_IF_ERROR(StatusOfTies(plan_->update, device_->ties()));
    return report;
  }
  Result<std::unique_ptr<PreparedUpdate>> OnHost() const {
    return backend_->Prepare(layout(), payloads(), live_->memory(), options_);
  }

 private:
  const Layout& layout() const { return bound_.update.layout; }
  std::span<const PayloadView> payloads() const { return bound_.update.payloads; }

  std::unique_ptr<Backend> backend_ = MakeCpuBackend();
  Random random_;
  BoundUpdate bound_;
  PrepareOptions options_;
  std::unique_ptr<RandomLiveMemory> live_;
  std::unique_ptr<MaskPlan> plan_;
  std::optional<EmulatedMasks> device_;
  EmulatedDecoder kernels_;
  FrameDecoder* decoders_[1] = {&kernels_};
  std::optional<MaskPipeline> pipeline_;
};

TEST(MaskBinding, GoesThereAndBackAsTheCpuDoes) {
  uint64_t cast_count = 0;
  for (uint64_t seed = 1; seed <= 24; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    BoundMasks masks(seed, false);
    if (masks.is_refused()) continue;
    const Buffer here = masks.Snapshot();
    const Result<PrepareReport> report = masks.Preflight();
    ASSERT_TRUE(report.ok()) << report.status().message();
    const auto on_host = masks.OnHost();
    ASSERT_TRUE(on_host.ok()) << on_host.status().message();
    EXPECT_EQ(report->local_change_count, (*on_host)->report().local_change_count);
    EXPECT_EQ(report->change, (*on_host)->report().change);
    EXPECT_EQ(report->sums, (*on_host)->report().sums);
    EXPECT_TRUE(std::ranges::includes(report->derived, (*on_host)->report().derived));
    ASSERT_TRUE((*on_host)->Apply().ok());
    const Buffer there = masks.Snapshot();
    ASSERT_TRUE((*on_host)->Undo().ok());
    ASSERT_EQ(masks.Snapshot(), here);
    const Status applied = masks.pipeline().Apply();
    ASSERT_TRUE(applied.ok()) << applied.message();
    EXPECT_EQ(masks.Snapshot(), there);
    const Status undone = masks.pipeline().TakeBack();
    ASSERT_TRUE(undone.ok()) << undone.message();
    EXPECT_EQ(masks.Snapshot(), here);
    cast_count += masks.plan().update.cast_tiles.size();
  }
  EXPECT_GT(cast_count, 10U);
}

TEST(MaskBinding, RefusesTiesThatWouldComeApart) {
  uint64_t torn_count = 0;
  for (uint64_t seed = 1; seed <= 24; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    BoundMasks masks(seed, true);
    if (masks.is_refused() || !masks.is_torn()) continue;
    ++torn_count;
    EXPECT_EQ(masks.Preflight().status().code(), masks.OnHost().status().code());
    EXPECT_EQ(masks.Preflight().status().code(), Code::kRefused);
  }
  EXPECT_GT(torn_count, 3U);
}

}  // namespace
}  // namespace xorbit::cuda
