// Decoding alone is timed as a pause is: all batches queued at once. XOR alone is timed batch by batch, each waited for, which
// adds some ten microseconds a batch.
#include "backend/cuda/testing/mask_bench.h"

#include <algorithm>

#include "backend/cuda/cuda_backend.h"
#include "backend/cuda/mask/cuda_mask_device.h"
#include "backend/cuda/mask/decoders.h"
#include "backend/cuda/mask/inner_staging.h"
#include "backend/cuda/testing/live_model.h"
#include "backend/portioned_update.h"
#include "base/parallel.h"
#include "base/stopwatch.h"

namespace xorbit::cuda::testing {
namespace {

// What a pause has where there is room.
constexpr uint64_t kSlotBytes = uint64_t{4} << 30;

class MaskStages {
 public:
  MaskStages(const BigModel& model, std::string codec, LiveModel* live, Report* report)
      : model_(model), codec_(std::move(codec)), live_(live), report_(report) {}

  // Gate closed to gate open, through the backend's interface, by the clock on the wall.
  void MeasurePause(const Backend& backend, const MaskOptions& masks, const std::string& variant) {
    PrepareOptions options;
    options.threads = DefaultThreadCount();
    options.throttle = ServingThrottle::None();
    options.masks = masks;
    const std::vector<MutableBytes> regions = live_->bytes();
    const Stopwatch preparing;
    const auto update = backend.Prepare(model_.layout, model_.payloads, {&model_.map, regions, {}}, options);
    report_->Check(update.status(), Name("prepare", variant));
    if (!update.ok()) return;
    Add("prepare", variant, {preparing.seconds() * 1e3});
    report_->Note(codec_, "staged bytes, " + variant, std::to_string((*update)->report().staged_bytes));
    std::vector<double> times_ms;
    for (int i = 0; i < report_->repeats(); ++i) {
      const Stopwatch pause;
      report_->Check((*update)->Apply(), Name("apply", variant));
      times_ms.push_back(pause.seconds() * 1e3);
      if (i == 0) live_->Verify(true, Name("apply", variant));
      report_->Check((*update)->Undo(), Name("undo", variant));
    }
    Add("whole pause", variant, std::move(times_ms));
    live_->Verify(false, Name("undo", variant));
  }

  // As a sampler that starts up takes an update, there and back, with the payload at hand.
  void MeasurePortions(const Backend& backend, uint64_t megabytes) {
    const std::string variant = "by portions of " + std::to_string(megabytes) + " MB";
    PrepareOptions options;
    options.threads = DefaultThreadCount();
    options.throttle = ServingThrottle::None();
    options.localise_budget_bytes = 0;
    const std::vector<MutableBytes> regions = live_->bytes();
    const auto read = [&](uint32_t /*payload_index*/, uint64_t offset, bool /*is_again*/, MutableBytes bytes) {
      const ConstBytes body = model_.payloads.front().body;
      std::copy_n(body.begin() + static_cast<ptrdiff_t>(offset), bytes.size(), bytes.begin());
      return Status();
    };
    std::vector<double> times_ms;
    PortionReport portions;
    for (const bool back : {false, true, false, true}) {
      options.direction = back ? Direction::kInverse : Direction::kForward;
      portions = {};
      const Stopwatch watch;
      report_->Check(ApplyByPortions(backend, model_.layout, model_.payloads, read, {&model_.map, regions, {}}, megabytes << 20,
                                     options, &portions),
                     Name("apply", variant));
      times_ms.push_back(watch.seconds() * 1e3);
      live_->Verify(!back, Name("apply", variant));
    }
    Add("all of it", variant, std::move(times_ms));
    report_->Note(codec_, "groups, " + variant, std::to_string(portions.group_count));
    report_->Note(codec_, "most staged bytes, " + variant, std::to_string(portions.most_staged_bytes));
    for (const StageTimers::Entry& entry : portions.timers.entries()) {
      report_->Note(codec_, entry.name + " s, " + variant, std::to_string(entry.seconds));
    }
  }

  // The stages of one pass, each alone.
  Status MeasureStages(uint64_t slot_bytes, bool on_host, const std::string& variant) {
    XORBIT_ASSIGN_OR_RETURN(const std::unique_ptr<MaskPlan> plan,
                            PlanMasks(model_.layout, model_.payloads, model_.map, live_->regions()));
    XORBIT_ASSIGN_OR_RETURN(const PinnedBuffer inner, PinnedBuffer::Make(InnerStagingBytes(*plan)));
    XORBIT_RETURN_IF_ERROR(StageInner(*plan, {.threads = DefaultThreadCount()}, inner.bytes()));
    DeviceBuffer inner_dev;
    PlaceInner(inner.bytes().data(), plan.get());
    if (!on_host) {
      XORBIT_ASSIGN_OR_RETURN(inner_dev, DeviceBuffer::Make(inner.bytes().size()));
      XORBIT_RETURN_IF_ERROR(Upload(inner_dev.data_dev(), inner.bytes()));
      PlaceInner(inner_dev.data_dev(), plan.get());
    }
    XORBIT_ASSIGN_OR_RETURN(const std::unique_ptr<CudaMaskDevice> device, CudaMaskDevice::Make(plan.get(), {}));
    XORBIT_ASSIGN_OR_RETURN(const DeviceBuffer slots, DeviceBuffer::Make(2 * slot_bytes));
    XORBIT_RETURN_IF_ERROR(device->UseSlots({{slots.data_dev(), slots.byte_count()}, 2}));
    XORBIT_ASSIGN_OR_RETURN(const DecoderChoice choice, ChooseDecoders("kernels", plan->kind, true, 0, 1));
    for (const MaskPass pass : {MaskPass::kPreflight, MaskPass::kApply, MaskPass::kUndo, MaskPass::kApply, MaskPass::kUndo}) {
      XORBIT_RETURN_IF_ERROR(MeasurePass(pass, device.get(), choice.decoders.front().get(), variant));
    }
    XORBIT_RETURN_IF_ERROR(device->LeaveServing());
    XORBIT_RETURN_IF_ERROR(MeasureDecoding(device.get(), choice.decoders.front().get(), variant));
    report_->Note(codec_, "batches, " + variant, std::to_string(device->batches().size()));
    report_->Note(codec_, "frames", std::to_string(plan->frames.size()));
    report_->Note(codec_, "inner bytes", std::to_string(plan->inner_bytes));
    report_->Note(codec_, "mask bytes", std::to_string(plan->mask_bytes));
    return {};
  }

 private:
  Status MeasurePass(MaskPass pass, CudaMaskDevice* device, FrameDecoder* decoder, const std::string& variant) {
    double update_seconds = 0;
    XORBIT_RETURN_IF_ERROR(device->Begin());
    XORBIT_RETURN_IF_ERROR(device->Drain());
    for (const MaskBatch& batch : device->batches()) {
      XORBIT_RETURN_IF_ERROR(device->Decode(batch, 0, decoder));
      XORBIT_RETURN_IF_ERROR(device->Drain());
      const Stopwatch updating;
      XORBIT_RETURN_IF_ERROR(device->Update(batch, 0, pass, *decoder));
      XORBIT_RETURN_IF_ERROR(device->Drain());
      update_seconds += updating.seconds();
    }
    MaskFindings findings;
    XORBIT_RETURN_IF_ERROR(device->Finish(&findings));
    if (pass == MaskPass::kPreflight) Add("pre-flight alone", variant, {update_seconds * 1e3});
    if (pass == MaskPass::kApply) Add("XOR alone", variant, {update_seconds * 1e3});
    return {};
  }

  Status MeasureDecoding(CudaMaskDevice* device, FrameDecoder* decoder, const std::string& variant) {
    std::vector<double> times_ms;
    for (int i = 0; i < report_->repeats(); ++i) {
      XORBIT_RETURN_IF_ERROR(device->Begin());
      XORBIT_RETURN_IF_ERROR(device->Drain());
      const Stopwatch decoding;
      uint32_t slot = 0;
      for (const MaskBatch& batch : device->batches()) {
        XORBIT_RETURN_IF_ERROR(device->Decode(batch, slot++ % device->slot_count(), decoder));
      }
      XORBIT_RETURN_IF_ERROR(device->Drain());
      times_ms.push_back(decoding.seconds() * 1e3);
    }
    Add("decoding alone", variant, std::move(times_ms));
    return {};
  }

  std::string Name(const char* what, const std::string& variant) const { return codec_ + ", " + what + ", " + variant; }
  void Add(const char* what, const std::string& variant, std::vector<double> times_ms) {
    report_->AddTimes(codec_, std::string(what) + ", " + variant, model_.byte_count,
                      model_.payloads.front().header.change_count, std::move(times_ms));
  }

  const BigModel& model_;
  std::string codec_;
  LiveModel* live_;
  Report* report_;
};

void BenchCodec(const std::string& codec, uint64_t byte_count, const MaskBenchOptions& options, Report* report) {
  const Codec* found = FindCodec(codec);
  report->Check(found != nullptr, "there is no codec " + codec);
  if (found == nullptr) return;
  const Result<BigModel> model = MakeShare(byte_count, false, found->id());
  report->Check(model.status(), codec + ": making a model");
  if (!model.ok()) return;
  report->Note(codec, "payload bytes", std::to_string(model->payload_bytes.size()));
  Result<LiveModel> live = LiveModel::Make(*model, report);
  report->Check(live.status(), codec + ": live memory");
  const auto backend = MakeCudaBackend();
  report->Check(backend.status(), "the CUDA backend");
  if (!live.ok() || !backend.ok()) return;
  MaskStages stages(*model, codec, &*live, report);
  for (const uint64_t megabytes : options.portion_megabytes) stages.MeasurePortions(**backend, megabytes);
  if (found->id() == CodecId::kSparse) return;  // it has no stages of this kind
  for (const uint64_t megabytes : options.slot_megabytes) {
    for (const bool on_host : options.tries_host ? std::vector<bool>{false, true} : std::vector<bool>{false}) {
      const std::string where = "slots of " + std::to_string(megabytes) + " MB" + (on_host ? ", frames on the host" : "");
      MaskOptions masks;
      masks.slot_bytes = megabytes << 20;
      masks.keeps_inner_on_host = on_host;
      for (const std::string& decoder : options.decoders) {
        masks.decoder = decoder;
        stages.MeasurePause(**backend, masks, std::string(decoder).append(", ").append(where));
      }
      const uint64_t slot_bytes = megabytes == 0 ? kSlotBytes : megabytes << 20;
      report->Check(stages.MeasureStages(slot_bytes, on_host, where), std::string(codec).append(": stages, ").append(where));
    }
  }
}

}  // namespace

void BenchMasks(uint64_t byte_count, const MaskBenchOptions& options, Report* report) {
  for (const std::string& codec : options.codecs) BenchCodec(codec, byte_count, options, report);
}

}  // namespace xorbit::cuda::testing
