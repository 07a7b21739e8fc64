// Updates of mask codecs on emulated warps: there and back under any live map, by our kernels and by an engine that a test
// double plays; and whatever fails, live memory is as it was.
#include "backend/cuda/mask/mask_pipeline.h"

#include <gtest/gtest.h>

#include "backend/cuda/binding_plan.h"
#include "backend/cuda/mask/engine_decoder.h"
#include "backend/cuda/mask/mask_report.h"
#include "backend/cuda/testing/emulated_masks.h"
#include "backend/cuda/testing/emulated_memory.h"
#include "backend/cuda/testing/fake_engine.h"
#include "backend/cuda/testing/random_update.h"
#include "base/testing/seed.h"

namespace xorbit::cuda {
namespace {

using testing::EmulatedDecoder;
using testing::EmulatedMasks;
using testing::EmulatedMemory;
using testing::EngineFault;
using testing::FakeEngine;

constexpr uint64_t kMaxElements = 3000;
constexpr uint64_t kSlotBytes = 65'536;  // so that there are many batches
constexpr CodecId kCodecs[] = {CodecId::kSnappy, CodecId::kLz4, CodecId::kSnappyZstd, CodecId::kLz4Zstd};

// Frames as small as a seed wants them, so that there are many, or of whole tiles.
EncodeOptions SmallFrames(uint64_t seed) {
  constexpr uint64_t kFrameBytes[] = {64, 256, 1024, 4096, 32'768};
  EncodeOptions options;
  options.frame_bytes = kFrameBytes[seed % 5];
  return options;
}

// An update of a random model, planned and staged for live memory that holds its base.
class MaskCase {
 public:
  MaskCase(uint64_t seed, uint64_t max_elements, CodecId codec)
      : options_(SmallFrames(seed)),
        update_(testing::MakeRandomUpdate(*backend_, seed, max_elements, codec, options_).value()),
        random_(seed),
        live_(seed % 4 == 0 ? CanonicalMap(update_.layout) : RandomLiveMap(random_, update_.layout).Make(), random_) {
    prepare_.direction = seed % 2 == 0 ? Direction::kInverse : Direction::kForward;
    prepare_.partial = seed % 3 == 0;
    live_.Set(from());
    plan_ = PlanMasks(update_.layout, update_.payloads, live_.map(), live_.regions()).value();
    device_.emplace(plan_.get(), kSlotBytes, 2 + static_cast<uint32_t>(seed % 3), prepare_.direction, prepare_.partial);
    EXPECT_TRUE(device_->staging().ok()) << device_->staging().message();
  }

  const RandomTensors& from() const { return is_inverse() ? *update_.after : *update_.before; }
  const RandomTensors& to() const { return is_inverse() ? *update_.before : *update_.after; }
  bool changes() const { return plan_->update.change_count > 0; }
  EmulatedMemory& live() { return live_; }
  EmulatedMasks& device() { return *device_; }
  const MaskPlan& plan() const { return *plan_; }

  // Batches of a few frames each, whatever slots would hold.
  Result<PrepareReport> Preflight(MaskPipeline* pipeline) {
    MaskFindings findings;
    XORBIT_RETURN_IF_ERROR(pipeline->Preflight(&findings));
    return ReportOfMasks(*plan_, update_.payloads, findings.counters, device_->counted_sums(), prepare_);
  }
  Result<PrepareReport> OnHost() {
    const auto prepared = backend_->Prepare(update_.layout, update_.payloads, live_.memory(), prepare_);
    if (!prepared.ok()) return prepared.status();
    return (*prepared)->report();
  }

 private:
  bool is_inverse() const { return prepare_.direction == Direction::kInverse; }

  std::unique_ptr<Backend> backend_ = MakeCpuBackend();
  EncodeOptions options_;
  testing::RandomUpdate update_;
  Random random_;
  EmulatedMemory live_;
  PrepareOptions prepare_;
  std::unique_ptr<MaskPlan> plan_;
  std::optional<EmulatedMasks> device_;
};

void ExpectSameReports(const PrepareReport& got, const PrepareReport& want) {
  EXPECT_EQ(got.change_count, want.change_count);
  EXPECT_EQ(got.local_change_count, want.local_change_count);
  EXPECT_EQ(got.record_count, want.record_count);
  EXPECT_EQ(got.change, want.change);
  EXPECT_EQ(got.sums, want.sums);
}

void ExpectThereAndBack(MaskCase* c, std::span<FrameDecoder* const> decoders) {
  MaskPipeline pipeline(c->plan(), &c->device(), decoders);
  const Result<PrepareReport> report = c->Preflight(&pipeline);
  ASSERT_TRUE(report.ok()) << report.status().message();
  ASSERT_TRUE(c->live().Holds(c->from()));
  const Result<PrepareReport> on_host = c->OnHost();
  ASSERT_TRUE(on_host.ok()) << on_host.status().message();
  ExpectSameReports(*report, *on_host);
  for (int round = 0; round < 2; ++round) {
    const Status applied = pipeline.Apply();
    ASSERT_TRUE(applied.ok()) << applied.message();
    ASSERT_TRUE(c->live().Holds(c->to()));
    const Status undone = pipeline.TakeBack();
    ASSERT_TRUE(undone.ok()) << undone.message();
    ASSERT_TRUE(c->live().Holds(c->from()));
    EXPECT_TRUE(c->device().queue_is_intact());
  }
}

TEST(MaskPipeline, GoesThereAndBackByOurKernels) {
  for (uint64_t seed = 1; seed <= TestRounds(24); ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    MaskCase c(seed, kMaxElements, kCodecs[seed % 4]);
    EmulatedDecoder kernels;
    FrameDecoder* const decoders[] = {&kernels};
    ExpectThereAndBack(&c, decoders);
  }
}

TEST(MaskPipeline, GoesThereAndBackByAnEngine) {
  for (uint64_t seed = 1; seed <= TestRounds(16); ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    MaskCase c(seed, kMaxElements, kCodecs[seed % 4]);
    FakeEngine driver;
    if (seed % 4 == 1) driver.most_bytes = 200;  // longer frames go by the kernels
    EmulatedDecoder kernels;
    const auto engine = EngineDecoder::Make(driver, 0, c.plan().kind, &kernels).value();
    FrameDecoder* const decoders[] = {engine.get(), &kernels};
    ExpectThereAndBack(&c, decoders);
    EXPECT_TRUE(!c.changes() || driver.most_bytes == 200 || driver.decoded_count() > 0);
  }
}

TEST(MaskPipeline, RefusesAnotherStateAndLeavesIt) {
  for (uint64_t seed = 1; seed <= TestRounds(12); ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    MaskCase c(seed, kMaxElements, kCodecs[seed % 4]);
    if (!c.changes()) continue;
    EmulatedDecoder kernels;
    FrameDecoder* const decoders[] = {&kernels};
    MaskPipeline pipeline(c.plan(), &c.device(), decoders);
    ASSERT_TRUE(c.Preflight(&pipeline).ok());
    c.live().Set(c.to());
    EXPECT_EQ(pipeline.Apply().code(), Code::kRefused);
    EXPECT_TRUE(c.live().Holds(c.to()));
    if (seed % 3 != 0) {
      EXPECT_EQ(c.Preflight(&pipeline).status().code(), Code::kRefused);
    }
  }
}

// Every element of tiles of one-byte elements changes: the most that a queue has to hold.
TEST(MaskPipeline, GoesThroughTilesThatChangeThroughout) {
  for (const uint64_t seed : {11, 29, 59}) {  // of those whose updates change everything
    SCOPED_TRACE("seed " + std::to_string(seed));
    MaskCase c(seed, 20'000, CodecId::kLz4);
    EmulatedDecoder kernels;
    FrameDecoder* const decoders[] = {&kernels};
    ExpectThereAndBack(&c, decoders);
  }
}

// A large update of many batches.
constexpr uint64_t kManyElements = 32'000;
constexpr uint64_t kFaultSeeds[] = {3, 9, 4};

TEST(MaskPipeline, FaultsOfTheEngineInPreflightAreRefused) {
  for (const uint64_t seed : kFaultSeeds) {
    for (const EngineFault fault : testing::kEngineFaults) {
      SCOPED_TRACE("seed " + std::to_string(seed) + ", fault " + std::to_string(static_cast<int>(fault)));
      MaskCase c(seed, kMaxElements, kCodecs[seed % 4]);
      FakeEngine driver;
      EmulatedDecoder kernels;
      const auto engine = EngineDecoder::Make(driver, 0, c.plan().kind, &kernels).value();
      FrameDecoder* const decoders[] = {engine.get(), &kernels};
      MaskPipeline pipeline(c.plan(), &c.device(), decoders);
      driver.FailAt(0, fault);
      if (!c.changes()) continue;
      MaskFindings findings;
      const Result<PrepareReport> report = c.Preflight(&pipeline);
      // Sums of a cohort's rank are not compared here but by the cohort.
      const bool shows_in_sums = fault == EngineFault::kWrongBytes && report.ok();
      EXPECT_TRUE(!report.ok() || (shows_in_sums && seed % 3 == 0));
      EXPECT_TRUE(c.live().Holds(c.from()));
    }
  }
}

TEST(MaskPipeline, FaultsOfTheEngineInThePauseAreTakenBackAtEveryBatch) {
  uint64_t faults = 0;
  for (const EngineFault fault : testing::kEngineFaults) {
    MaskCase c(9, kManyElements, CodecId::kSnappyZstd);
    FakeEngine driver;
    EmulatedDecoder kernels;
    const auto engine = EngineDecoder::Make(driver, 0, c.plan().kind, &kernels).value();
    FrameDecoder* const decoders[] = {engine.get(), &kernels};
    MaskPipeline pipeline(c.plan(), &c.device(), decoders);
    ASSERT_TRUE(c.Preflight(&pipeline).ok());
    for (uint64_t batch = 0; batch < c.device().batches().size(); ++batch) {
      SCOPED_TRACE("fault " + std::to_string(static_cast<int>(fault)) + " at batch " + std::to_string(batch));
      driver.FailAt(batch, fault);
      const Status status = pipeline.Apply();
      EXPECT_FALSE(status.ok());
      EXPECT_EQ(status.message().find("reload"), std::string::npos) << status.message();
      ASSERT_TRUE(c.live().Holds(c.from()));
      // The same while it is taken back: another decoder does it.
      ASSERT_TRUE(pipeline.Apply().ok());
      driver.FailAt(batch, fault);
      const Status undone = pipeline.TakeBack();
      EXPECT_TRUE(undone.ok()) << undone.message();
      ASSERT_TRUE(c.live().Holds(c.from()));
      ++faults;
    }
  }
  EXPECT_GT(faults, 12U);
}

TEST(MaskPipeline, AFailureOfTheDeviceIsTakenBackAtEveryBatch) {
  MaskCase c(9, kManyElements, CodecId::kLz4);
  EmulatedDecoder kernels;
  FrameDecoder* const decoders[] = {&kernels};
  MaskPipeline pipeline(c.plan(), &c.device(), decoders);
  ASSERT_TRUE(c.Preflight(&pipeline).ok());
  for (uint64_t batch = 0; batch < c.device().batches().size(); ++batch) {
    c.device().FailUpdate(batch);
    EXPECT_EQ(pipeline.Apply().code(), Code::kIo);
    ASSERT_TRUE(c.live().Holds(c.from()));
  }
  ASSERT_TRUE(pipeline.Apply().ok());
  EXPECT_TRUE(c.live().Holds(c.to()));
}

TEST(EngineDecoder, IsRefusedWhereItCannotWork) {
  EmulatedDecoder kernels;
  FakeEngine driver;
  driver.algorithms = 0;
  EXPECT_EQ(EngineDecoder::Make(driver, 0, InnerKind::kSnappy, &kernels).status().code(), Code::kUnsupported);
  driver.algorithms = kDecompressLz4;
  EXPECT_EQ(EngineDecoder::Make(driver, 0, InnerKind::kSnappy, &kernels).status().code(), Code::kUnsupported);
  EXPECT_EQ(EngineDecoder::Make(driver, 0, InnerKind::kZstd, &kernels).status().code(), Code::kUnsupported);
  const auto engine = EngineDecoder::Make(driver, 0, InnerKind::kLz4, &kernels).value();
  uint8_t bytes[64] = {};
  uint32_t length = 0;
  const FrameOnDevice frame{bytes, 0, 8, 32, 0, 0, 0, 1};
  const DecodeJob job{InnerKind::kLz4, {&frame, 1}, &frame, &length, nullptr, bytes + 32, nullptr, false, 0, nullptr};
  for (const void* place :
       {static_cast<const void*>(bytes), static_cast<const void*>(bytes + 32), static_cast<const void*>(&length)}) {
    driver.incapable = place;
    EXPECT_EQ(engine->Submit(job).code(), Code::kUnsupported);
  }
  EXPECT_EQ(driver.decoded_count(), 0U);
}

}  // namespace
}  // namespace xorbit::cuda
