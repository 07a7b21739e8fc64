#include "backend/cuda/mask/mask_update.h"

#include <algorithm>
#include <string>
#include <utility>

#include "backend/cuda/binding_plan.h"
#include "backend/cuda/cuda_status.h"
#include "backend/cuda/device.h"
#include "backend/cuda/mask/cuda_mask_device.h"
#include "backend/cuda/mask/decoders.h"
#include "backend/cuda/mask/host_inner.h"
#include "backend/cuda/mask/inner_staging.h"
#include "backend/cuda/mask/mask_report.h"
#include "backend/cuda/paced_run.h"
#include "base/checked_math.h"
#include "codec/mask_format.h"

namespace xorbit::cuda {
namespace {

constexpr const char* kMoved = "live weights are not what they were when this update was prepared: prepare it again";

// One warp decodes a frame, and a batch ends with its last one: a slot should hold many. Of free memory slots take a quarter.
constexpr uint64_t kMostSlotBytes = uint64_t{4} << 30;
// Where the caller lends slots for the pause, pre-flight needs some of its own while the engine still uses them.
constexpr uint64_t kPreflightSlotBytes = uint64_t{64} << 20;

class MaskUpdate final : public PreparedUpdate {
 public:
  MaskUpdate(int device, const LiveMap& map, const MaskOptions& options)
      : device_index_(device), map_(map), epoch_(map.epoch()), options_(options) {}

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
    if (!plan_->update.ties.empty()) {
      XORBIT_ASSIGN_OR_RETURN(const std::vector<TieOnDevice> ties, masks_->ReadTies());
      XORBIT_RETURN_IF_ERROR(StatusOfTies(plan_->update, ties));
    }
    XORBIT_RETURN_IF_ERROR(masks_->LeaveServing());
    if (!options_.lent_dev.empty()) {
      XORBIT_RETURN_IF_ERROR(masks_->UseSlots({options_.lent_dev, options_.slot_count}));
      slots_ = {};
    }
    report_.staged_bytes = masks_->byte_count() + slots_.byte_count() + inner_dev_.byte_count() + inner_host_.bytes().size();
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
    slots_ = {};
    XORBIT_ASSIGN_OR_RETURN(masks_, CudaMaskDevice::Make(plan_.get(), stage));
    XORBIT_RETURN_IF_ERROR(StageFrames(options));
    XORBIT_ASSIGN_OR_RETURN(slots_, MakeSlots());
    XORBIT_RETURN_IF_ERROR(masks_->UseSlots({{slots_.data_dev(), slots_.byte_count()}, options_.slot_count}));
    std::vector<FrameDecoder*> decoders;
    for (const auto& decoder : choice_.decoders) decoders.push_back(decoder.get());
    pipeline_.emplace(*plan_, masks_.get(), decoders);
    return {};
  }

  // In pinned memory, and from there on the device if its decoders read it there and it has room.
  Status StageFrames(const PrepareOptions& options) {
    const uint64_t byte_count = InnerStagingBytes(*plan_);
    if (byte_count > options_.inner_budget_bytes) {
      return UnsupportedError("this update's frames need " + std::to_string(byte_count) + " bytes of host memory, of which " +
                              std::to_string(options_.inner_budget_bytes) +
                              " are allowed: allow more, or publish with the sparse codec");
    }
    XORBIT_ASSIGN_OR_RETURN(inner_host_, HostInner::Make(byte_count, choice_.engine_driver, device_index_));
    XORBIT_RETURN_IF_ERROR(StageInner(*plan_, options.threads, inner_host_.bytes()));
    PlaceInner(inner_host_.bytes().data(), plan_.get());
    if (!choice_.reads_device_memory || options_.keeps_inner_on_host) return {};
    XORBIT_ASSIGN_OR_RETURN(const uint64_t free_bytes, FreeDeviceBytes());
    if (byte_count > free_bytes / 4) return {};  // the bus will do
    XORBIT_ASSIGN_OR_RETURN(inner_dev_, DeviceBuffer::Make(byte_count));
    XORBIT_ASSIGN_OR_RETURN(const Stream stream, MakeStream());
    XORBIT_RETURN_IF_ERROR(CopyPaced(inner_dev_.data_dev(), inner_host_.bytes().data(), byte_count, "inner frames",
                                     options.throttle, stream.get()));
    XORBIT_RETURN_IF_ERROR(CudaStatus(cudaStreamSynchronize(stream.get()), "cudaStreamSynchronize after staging"));
    PlaceInner(inner_dev_.data_dev(), plan_.get());
    inner_host_ = {};
    return {};
  }

  static Result<uint64_t> FreeDeviceBytes() {
    size_t free_bytes = 0;
    size_t all_bytes = 0;
    XORBIT_RETURN_IF_ERROR(CudaStatus(cudaMemGetInfo(&free_bytes, &all_bytes), "cudaMemGetInfo"));
    return uint64_t{free_bytes};
  }

  Result<uint64_t> WantedSlotBytes() const {
    if (!options_.lent_dev.empty()) return kPreflightSlotBytes;
    if (options_.slot_bytes > 0) return options_.slot_bytes;
    XORBIT_ASSIGN_OR_RETURN(const uint64_t free_bytes, FreeDeviceBytes());
    return std::min(kMostSlotBytes, free_bytes / 4 / options_.slot_count);
  }

  // Half as large as long as the device has no room; never larger than the update needs.
  Result<DeviceBuffer> MakeSlots() const {
    const uint64_t padded_bytes = plan_->mask_bytes + plan_->frames.size() * kMaskAlignment;
    const uint64_t needed = DivideRoundUp(std::max(padded_bytes / options_.slot_count, kMaxFrameBytes), kMaskAlignment);
    XORBIT_ASSIGN_OR_RETURN(const uint64_t wanted, WantedSlotBytes());
    uint64_t slot_bytes = std::min(std::max(wanted, kMaxFrameBytes), needed * kMaskAlignment + kMaxFrameBytes);
    for (;; slot_bytes /= 2) {
      Result<DeviceBuffer> slots = DeviceBuffer::Make(slot_bytes / kMaskAlignment * kMaskAlignment * options_.slot_count);
      if (slots.ok() || options_.slot_bytes > 0 || slot_bytes / 2 < kMaxFrameBytes) return slots;
      static_cast<void>(cudaGetLastError());  // it is dealt with here
    }
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
  HostInner inner_host_;  // one of these two holds the frames
  DeviceBuffer inner_dev_;
  DeviceBuffer slots_;
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
