#include "backend/cuda/device_update.h"

#include <algorithm>
#include <utility>

#include "backend/cuda/binding_plan.h"
#include "backend/cuda/bitmap_plan.h"
#include "backend/cuda/cuda_status.h"
#include "backend/cuda/device.h"
#include "backend/cuda/mask/mask_plan.h"
#include "backend/cuda/mask/mask_update.h"
#include "backend/cuda/paced_run.h"
#include "backend/cuda/report_of.h"
#include "backend/cuda/staged_update.h"

namespace xorbit::cuda {
namespace {

constexpr const char* kMoved = "live weights are not what they were when this update was prepared: prepare it again";

class DeviceUpdate final : public PreparedUpdate {
 public:
  DeviceUpdate(int device, const LiveMap& map) : device_(device), map_(map), epoch_(map.epoch()) {}

  Status Prepare(const Layout& layout, std::span<const PayloadView> payloads, const LiveMemory& live,
                 const PrepareOptions& options) {
    XORBIT_ASSIGN_OR_RETURN(const CurrentDevice current, CurrentDevice::Set(device_));
    payloads_.assign(payloads.begin(), payloads.end());
    XORBIT_ASSIGN_OR_RETURN(stream_, MakeStream());
    XORBIT_ASSIGN_OR_RETURN(plan_, PlanUpdate(layout, payloads_, map_, PlacesOf(live)));
    XORBIT_RETURN_IF_ERROR(Stage(options));
    const LaunchShape shape{0, options.throttle.blocks};
    XORBIT_RETURN_IF_ERROR(RunPaced(plan_.item_count, options.throttle, stream_.get(), [&](uint64_t begin, uint64_t end) {
      return LaunchPreflight(staged_.Slice(plan_, begin, end), keeps_log(), shape, stream_.get());
    }));
    const uint64_t checked_items = staged_.checked().items.end;
    XORBIT_RETURN_IF_ERROR(RunPaced(checked_items, options.throttle, stream_.get(), [&](uint64_t begin, uint64_t end) {
      UpdateOnDevice slice = staged_.checked();
      slice.items = {begin, end, 0};
      return LaunchBindings(slice, staged_.bindings(), BindingStep::kCheck, shape, stream_.get());
    }));
    XORBIT_RETURN_IF_ERROR(ReadCounters());
    XORBIT_RETURN_IF_ERROR(StatusOfReports(plan_, counters()));
    if (!plan_.ties.empty() && !options.is_portion) {
      XORBIT_ASSIGN_OR_RETURN(const std::vector<TieOnDevice> ties, staged_.ReadTies(stream_.get()));
      XORBIT_RETURN_IF_ERROR(StatusOfTies(plan_, ties));
    }
    const uint64_t bitmap_items = plan_.bitmap_tile_count > 0 ? plan_.item_count : 0;
    XORBIT_RETURN_IF_ERROR(RunPaced(bitmap_items, options.throttle, stream_.get(), [&](uint64_t begin, uint64_t end) {
      return LaunchBitmaps(staged_.Slice(plan_, begin, end), shape, stream_.get());
    }));
    std::vector<TileSums> sums;
    if (options.partial) {
      XORBIT_ASSIGN_OR_RETURN(sums, staged_.ReadCountedSums(stream_.get()));
    }
    XORBIT_ASSIGN_OR_RETURN(report_, ReportOf(plan_, payloads_, counters(), sums, options));
    report_.staged_bytes = memory_.byte_count() + pinned_bodies_.bytes().size();
    XORBIT_RETURN_IF_ERROR(staged_.ClearCounters(stream_.get()));
    XORBIT_RETURN_IF_ERROR(LaunchApply(staged_.update(), apply_kind(), false, {.loads_only = true}, stream_.get()));
    return Wait();  // or the pause would, for what has been put into the stream here
  }

  const PrepareReport& report() const override { return report_; }

  Status Apply() override {
    if (applied_ && !keeps_log()) {
      return UsageError("this update has been applied already, and XOR would take it back: use Undo");
    }
    XORBIT_RETURN_IF_ERROR(CheckEpoch());
    XORBIT_ASSIGN_OR_RETURN(const CurrentDevice current, CurrentDevice::Set(device_));
    const Status launched = LaunchApply(staged_.update(), apply_kind(), false, {}, stream_.get());
    XORBIT_RETURN_IF_ERROR(launched);  // nothing has changed
    const Status cast = CastImages(keeps_log() ? BindingStep::kStore : BindingStep::kFollowXor);
    if (!cast.ok()) {
      XORBIT_RETURN_IF_ERROR(TakeBack());
      return cast;
    }
    is_lost_ = true;  // until it is known what the kernels did
    XORBIT_RETURN_IF_ERROR(ReadCounters().WithContext("apply failed on the device, reload the weights"));
    is_lost_ = false;
    const Status found = StatusOfReports(plan_, counters());
    if (!found.ok()) {
      XORBIT_RETURN_IF_ERROR(TakeBack());
      return found.code() == Code::kRefused ? RefusedError(kMoved) : found;
    }
    applied_ = true;
    return {};
  }

  Status Undo() override {
    if (!applied_ && !keeps_log()) return {};
    XORBIT_RETURN_IF_ERROR(CheckEpoch());
    XORBIT_ASSIGN_OR_RETURN(const CurrentDevice current, CurrentDevice::Set(device_));
    XORBIT_RETURN_IF_ERROR(TakeBack());
    applied_ = false;
    return {};
  }

  bool is_lost() const override { return is_lost_; }

 private:
  bool keeps_log() const { return staged_.has_undo_log(); }
  ApplyKind apply_kind() const { return keeps_log() ? ApplyKind::kStore : ApplyKind::kReturningXor; }

  // Dense tiles are laid out if that takes no more than half of the memory that is free: the engine may want some, too.
  Status PlanForms(const PrepareOptions& options) {
    if (options.keep_undo_log || options.localise_budget_bytes == 0) return {};
    size_t free_bytes = 0;
    size_t all_bytes = 0;
    XORBIT_RETURN_IF_ERROR(CudaStatus(cudaMemGetInfo(&free_bytes, &all_bytes), "cudaMemGetInfo"));
    PlanBitmaps(kBitmapBytesPerChange, free_bytes / 2, &plan_);
    return {};
  }

  // On the device, or, if it has no room for dense tiles' forms, without them, or for the payloads' bodies, without these too.
  Status Stage(const PrepareOptions& options) {
    XORBIT_RETURN_IF_ERROR(PlanForms(options));
    StageOptions stage;
    stage.keep_undo_log = options.keep_undo_log;
    stage.inverse = options.direction == Direction::kInverse;
    stage.partial = options.partial;
    stage.throttle = options.throttle;
    Result<DeviceBuffer> memory = DeviceBuffer::Make(StagedUpdate::BytesFor(plan_, stage));
    if (!memory.ok() && plan_.bitmap_tile_count > 0) {
      static_cast<void>(cudaGetLastError());  // it is dealt with here
      PlanBitmaps(0, 0, &plan_);
      memory = DeviceBuffer::Make(StagedUpdate::BytesFor(plan_, stage));
    }
    if (!memory.ok()) {
      static_cast<void>(cudaGetLastError());  // it is dealt with here
      XORBIT_RETURN_IF_ERROR(PinBodies());
      stage.body_on_device = false;
      memory = DeviceBuffer::Make(StagedUpdate::BytesFor(plan_, stage));
    }
    XORBIT_RETURN_IF_ERROR(memory.status());
    memory_ = std::move(memory).value();
    XORBIT_ASSIGN_OR_RETURN(staged_, StagedUpdate::Stage(plan_, stage, memory_.data_dev(), stream_.get()));
    XORBIT_ASSIGN_OR_RETURN(counters_, PinnedBuffer::Make(staged_.payload_count() * sizeof(PayloadCounters)));
    return {};
  }

  // Copies all bodies into pinned memory, and lets the plan's payloads point there.
  Status PinBodies() {
    constexpr uint64_t kAlignment = 16;
    const auto room_of = [](const PayloadSegment& segment) {
      return (segment.view.body.size() + kAlignment) / kAlignment * kAlignment;
    };
    uint64_t byte_count = 0;
    for (const PayloadView& payload : payloads_) {
      for (const PayloadSegment& segment : payload.segments) byte_count += room_of(segment);
    }
    XORBIT_ASSIGN_OR_RETURN(pinned_bodies_, PinnedBuffer::Make(byte_count));
    uint64_t at = 0;
    for (PayloadView& payload : payloads_) {
      for (PayloadSegment& segment : payload.segments) {
        const MutableBytes place = pinned_bodies_.bytes().subspan(at, segment.view.body.size());
        std::copy(segment.view.body.begin(), segment.view.body.end(), place.begin());
        segment.view.body = place;
        at += room_of(segment);
      }
    }
    return {};
  }

  Status CheckEpoch() const {
    if (map_.epoch() == epoch_) return {};
    return RefusedError("the engine has moved its weights since this update was prepared: prepare it again");
  }

  // Of shadows, after the kernel that wrote their kept copies.
  Status CastImages(BindingStep step) const {
    return LaunchBindings(staged_.cast(), staged_.bindings(), step, {}, stream_.get());
  }

  // Waits for everything before.
  Status ReadCounters() const {
    XORBIT_RETURN_IF_ERROR(staged_.CopyCounters(counters().data(), stream_.get()));
    return Wait();
  }
  Status Wait() const {
    return CudaStatus(cudaStreamSynchronize(stream_.get()), "cudaStreamSynchronize (a kernel before it may have failed)");
  }
  std::span<PayloadCounters> counters() const {
    return {reinterpret_cast<PayloadCounters*>(counters_.bytes().data()), staged_.payload_count()};
  }

  // XOR takes back whatever it did, whether or not it met the values of pre-flight.
  Status TakeBack() {
    const auto run = [&]() -> Status {
      XORBIT_RETURN_IF_ERROR(
          LaunchApply(staged_.update(), keeps_log() ? ApplyKind::kRestore : ApplyKind::kXor, false, {}, stream_.get()));
      XORBIT_RETURN_IF_ERROR(CastImages(keeps_log() ? BindingStep::kRestore : BindingStep::kFollowXor));
      XORBIT_RETURN_IF_ERROR(staged_.ClearCounters(stream_.get()));
      return Wait();
    };
    const Status status = run();
    is_lost_ = !status.ok();
    return status.WithContext("undo failed, reload the weights");
  }

  int device_;
  const LiveMap& map_;
  uint64_t epoch_;
  std::vector<PayloadView> payloads_;  // their bodies are the caller's, or in pinned_bodies_
  UpdatePlan plan_;                    // of payloads_
  Stream stream_;
  DeviceBuffer memory_;
  PinnedBuffer pinned_bodies_;
  PinnedBuffer counters_;
  StagedUpdate staged_;
  PrepareReport report_;
  bool applied_ = false;
  bool is_lost_ = false;
};

}  // namespace

Result<std::unique_ptr<PreparedUpdate>> PrepareOnDevice(const Layout& layout, std::span<const PayloadView> payloads,
                                                        const LiveMemory& live, const PrepareOptions& options, int device) {
  XORBIT_RETURN_IF_ERROR(CheckMemory(layout, live));
  const bool has_masks = std::ranges::any_of(payloads, [](const PayloadView& one) { return IsMaskCodec(one.info.codec); });
  if (has_masks) return PrepareMasksOnDevice(layout, payloads, live, options, device);
  auto update = std::make_unique<DeviceUpdate>(device, *live.map);
  XORBIT_RETURN_IF_ERROR(update->Prepare(layout, payloads, live, options));
  return std::unique_ptr<PreparedUpdate>(std::move(update));
}

}  // namespace xorbit::cuda
