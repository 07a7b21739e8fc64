#include "backend/cuda/mask/mask_update.h"

#include <algorithm>
#include <string>
#include <utility>

#include "backend/cuda/binding_plan.h"
#include "backend/cuda/cuda_status.h"
#include "backend/cuda/device.h"
#include "backend/cuda/mask/cuda_mask_device.h"
#include "backend/cuda/mask/decoders.h"
#include "backend/cuda/mask/mask_memory.h"
#include "backend/cuda/mask/mask_report.h"

namespace xorbit::cuda {
namespace {

constexpr const char* kMoved = "live weights are not what they were when this update was prepared: prepare it again";

class MaskUpdate final : public PreparedUpdate {
 public:
  MaskUpdate(int device, const LiveMap& map, const MaskOptions& options)
      : device_index_(device),
        map_(map),
        epoch_(map.epoch()),
        options_(options),
        memory_(MaskMemory::From(options.kept, device)) {}
  ~MaskUpdate() override {
    if (options_.kept != nullptr) *options_.kept = std::move(memory_);
  }

  Status Prepare(const Layout& layout, std::span<const PayloadView> payloads, const LiveMemory& live,
                 const PrepareOptions& options) {
    XORBIT_ASSIGN_OR_RETURN(const CurrentDevice current, CurrentDevice::Set(device_index_));
    XORBIT_ASSIGN_OR_RETURN(plan_, PlanMasks(layout, payloads, map_, PlacesOf(live)));
    const bool has_digests = std::ranges::all_of(payloads, &PayloadView::has_digests);
    XORBIT_ASSIGN_OR_RETURN(choice_,
                            ChooseDecoders(options_.decoder, plan_->kind, has_digests, device_index_, options.threads));
    MaskFindings findings;
    Status ready = StageAndCheck(options, &findings);
    if (!ready.ok() && choice_.engine_driver != nullptr && options_.decoder.empty()) {
      // Whatever the engine's trouble is, the kernels' verdict counts.
      choice_.decoders.erase(choice_.decoders.begin());
      choice_.engine_driver = nullptr;
      ready = StageAndCheck(options, &findings);
    }
    XORBIT_RETURN_IF_ERROR(ready);
    XORBIT_ASSIGN_OR_RETURN(const std::vector<TileSums> sums, masks_->ReadCountedSums());
    XORBIT_ASSIGN_OR_RETURN(report_, ReportOfMasks(*plan_, payloads, findings.counters, sums, options));
    if (!plan_->update.ties.empty() && !options.is_portion) {
      XORBIT_ASSIGN_OR_RETURN(const std::vector<TieOnDevice> ties, masks_->ReadTies());
      XORBIT_RETURN_IF_ERROR(StatusOfTies(plan_->update, ties));
    }
    XORBIT_RETURN_IF_ERROR(masks_->LeaveServing());
    if (!options_.lent_dev.empty()) {
      XORBIT_RETURN_IF_ERROR(masks_->UseSlots({options_.lent_dev, options_.slot_count}));
      memory_->ReleaseSlots();
    }
    report_.staged_bytes = masks_->byte_count() + memory_->byte_count();
    return {};
  }

  const PrepareReport& report() const override { return report_; }

  Status Apply() override {
    if (applied_) return UsageError("this update has been applied already, and XOR would take it back: use Undo");
    XORBIT_RETURN_IF_ERROR(CheckEpoch());
    XORBIT_ASSIGN_OR_RETURN(const CurrentDevice current, CurrentDevice::Set(device_index_));
    const Status status = pipeline_->Apply();
    applied_ = status.ok();
    return status.code() == Code::kRefused ? RefusedError(kMoved) : status;
  }

  Status Undo() override {
    if (!applied_) return {};
    XORBIT_RETURN_IF_ERROR(CheckEpoch());
    XORBIT_ASSIGN_OR_RETURN(const CurrentDevice current, CurrentDevice::Set(device_index_));
    XORBIT_RETURN_IF_ERROR(pipeline_->TakeBack());
    applied_ = false;
    return {};
  }

  bool is_lost() const override { return pipeline_->is_lost(); }

 private:
  Status StageAndCheck(const PrepareOptions& options, MaskFindings* findings) {
    XORBIT_RETURN_IF_ERROR(Stage(options));
    return pipeline_->Preflight(findings);
  }

  // Tables, inner frames and slots.
  Status Stage(const PrepareOptions& options) {
    StageOptions stage;
    stage.inverse = options.direction == Direction::kInverse;
    stage.partial = options.partial;
    stage.throttle = options.throttle;
    pipeline_.reset();  // of a try before
    masks_.reset();
    XORBIT_ASSIGN_OR_RETURN(masks_, CudaMaskDevice::Make(plan_.get(), stage));
    masks_->SetSpans(options_.spans);
    XORBIT_RETURN_IF_ERROR(memory_->StageFrames(options, choice_, plan_.get()));
    XORBIT_ASSIGN_OR_RETURN(const MutableBytes slots, memory_->Slots(options_, *plan_));
    XORBIT_RETURN_IF_ERROR(masks_->UseSlots({slots, options_.slot_count}));
    std::vector<FrameDecoder*> decoders;
    for (const auto& decoder : choice_.decoders) decoders.push_back(decoder.get());
    pipeline_.emplace(*plan_, masks_.get(), decoders);
    return {};
  }

  Status CheckEpoch() const {
    if (map_.epoch() == epoch_) return {};
    return RefusedError("the engine has moved its weights since this update was prepared: prepare it again");
  }

  int device_index_;
  const LiveMap& map_;
  uint64_t epoch_;
  MaskOptions options_;
  std::unique_ptr<MaskPlan> plan_;
  std::unique_ptr<MaskMemory> memory_;
  DecoderChoice choice_;
  std::unique_ptr<CudaMaskDevice> masks_;
  std::optional<MaskPipeline> pipeline_;
  PrepareReport report_;
  bool applied_ = false;
};

}  // namespace

Result<std::unique_ptr<PreparedUpdate>> PrepareMasksOnDevice(const Layout& layout, std::span<const PayloadView> payloads,
                                                             const LiveMemory& live, const PrepareOptions& options,
                                                             int device) {
  if (options.keep_undo_log) {
    return UnsupportedError(
        "updates of mask codecs keep no undo log on a device: prepare without one, or publish with the sparse codec");
  }
  auto update = std::make_unique<MaskUpdate>(device, *live.map, options.masks);
  XORBIT_RETURN_IF_ERROR(update->Prepare(layout, payloads, live, options));
  return std::unique_ptr<PreparedUpdate>(std::move(update));
}

}  // namespace xorbit::cuda
