// Live memory holds the model once; what is verified against is the formula.
#include "backend/cuda/testing/receive_bench.h"

#include <utility>

#include "backend/cuda/bitmap_plan.h"
#include "backend/cuda/cuda_backend.h"
#include "backend/cuda/cuda_status.h"
#include "backend/cuda/report_of.h"
#include "backend/cuda/scan_kernels.h"
#include "backend/cuda/testing/live_model.h"
#include "base/stopwatch.h"
#include "codec/change_digest.h"

namespace xorbit::cuda::testing {
namespace {

// One staged update and what is measured of it.
class Stages {
 public:
  Stages(const BigModel& model, LiveModel* live, Report* report) : model_(&model), live_(live), report_(report) {}

  // Once, before the rest.
  Status Plan() {
    XORBIT_ASSIGN_OR_RETURN(plan_, PlanUpdate(model_->layout, model_->payloads, model_->map, live_->regions()));
    return {};
  }

  Status Stage(const StageOptions& options, uint32_t bitmap_bytes_per_change) {
    memory_ = {};
    PlanBitmaps(bitmap_bytes_per_change, ~uint64_t{0}, &plan_);
    XORBIT_ASSIGN_OR_RETURN(memory_, DeviceBuffer::Make(StagedUpdate::BytesFor(plan_, options)));
    report_->Note(model_->name, "device bytes to stage", std::to_string(memory_.byte_count()));
    XORBIT_ASSIGN_OR_RETURN(staged_, StagedUpdate::Stage(plan_, options, memory_.data_dev(), report_->stream()));
    return {};
  }

  uint64_t bitmap_tile_count() const { return plan_.bitmap_tile_count; }

  void MeasurePreflight(uint32_t blocks, const std::string& name) {
    CheckReports("before " + name);
    Measure(name, blocks, [&] { return LaunchPreflight(staged_.update(), staged_.has_undo_log(), {blocks}, stream()); });
    CheckReports(name);
  }

  void MeasureBitmaps(uint32_t blocks, const std::string& name) {
    Measure(name, blocks, [&] { return LaunchBitmaps(staged_.update(), {blocks}, stream()); });
  }

  // An even number of runs, so that live memory ends as it began; then once more, verified, and back.
  void MeasureXor(uint32_t blocks, ApplyKind kind, const std::string& name) {
    bool applied = false;
    Measure(name, blocks, [&] {
      const Status status = LaunchApply(staged_.update(), kind, applied, {blocks}, stream());
      applied = !applied;
      return status;
    });
    if (!applied) report_->Check(LaunchApply(staged_.update(), kind, false, {blocks}, stream()), name);
    live_->Verify(true, name);
    report_->Check(LaunchApply(staged_.update(), kind, true, {blocks}, stream()), name);
    CheckReports(name);
  }

  void MeasureStores(uint32_t blocks) {
    bool applied = false;  // a store over what is there already would be none
    Measure("apply and undo by stores in turn", blocks, [&] {
      const ApplyKind kind = applied ? ApplyKind::kRestore : ApplyKind::kStore;
      applied = !applied;
      return LaunchApply(staged_.update(), kind, false, {blocks}, stream());
    });
    for (const ApplyKind kind : {ApplyKind::kStore, ApplyKind::kRestore}) {
      report_->Check(LaunchApply(staged_.update(), kind, false, {blocks}, stream()), "stores");
      live_->Verify(kind == ApplyKind::kStore, kind == ApplyKind::kStore ? "apply by stores" : "undo by stores");
    }
  }

  void MeasureCompare(uint32_t blocks, const std::string& name) {
    Measure(name, blocks, [&] { return LaunchApply(staged_.update(), ApplyKind::kCompare, false, {blocks}, stream()); });
    CheckReports(name);
  }

  // Gate closed to gate open, through the backend's interface, by the clock on the wall: every second run takes it back.
  void MeasurePause(const Backend& backend, bool keep_log);
  void MeasureScan();

 private:
  cudaStream_t stream() const { return report_->stream(); }
  void Measure(const std::string& name, uint32_t blocks, const std::function<Status()>& launch) {
    const std::string variant = name + (blocks == 0 ? "" : " with " + std::to_string(blocks) + " blocks each");
    report_->Measure(model_->name, variant, model_->byte_count, plan_.change_count, launch);
  }
  void CheckReports(const std::string& after) {
    const auto counters = staged_.ReadCounters(stream());
    report_->Check(counters.status(), model_->name + ", " + after);
    if (counters.ok()) report_->Check(StatusOfReports(plan_, *counters), model_->name + ", " + after);
    report_->Check(staged_.ClearCounters(stream()), "clearing");
  }

  const BigModel* model_;
  LiveModel* live_;
  Report* report_;
  UpdatePlan plan_;
  DeviceBuffer memory_;
  StagedUpdate staged_;
};

void Stages::MeasurePause(const Backend& backend, bool keep_log) {
  const std::vector<MutableBytes> regions = live_->bytes();
  memory_ = {};  // what the backend stages takes its place
  PrepareOptions options;
  options.keep_undo_log = keep_log;
  options.throttle = ServingThrottle::None();
  const std::string name = keep_log ? "whole pause with undo log" : "whole pause";
  const Stopwatch preparing;
  const auto update = backend.Prepare(model_->layout, model_->payloads, {&model_->map, regions, {}}, options);
  report_->Check(update.status(), model_->name + ", " + name);
  if (!update.ok()) return;
  report_->AddTimes(model_->name, keep_log ? "prepare with undo log" : "prepare", model_->byte_count, plan_.change_count,
                    {preparing.seconds() * 1e3});
  std::vector<double> times_ms;
  for (int i = 0; i < report_->repeats(); ++i) {
    const Stopwatch pause;
    report_->Check((*update)->Apply(), model_->name + ", " + name);
    times_ms.push_back(pause.seconds() * 1e3);
    if (i == 0) live_->Verify(true, name);
    report_->Check((*update)->Undo(), model_->name + ", undo of " + name);
  }
  report_->AddTimes(model_->name, name, model_->byte_count, plan_.change_count, std::move(times_ms));
}

void Stages::MeasureScan() {
  const std::vector<uint64_t> keys = TensorKeysOf(model_->layout);
  std::vector<ScanRange> ranges;
  for (size_t i = 0; i < keys.size(); ++i) {
    const RegionBounds& tensor = live_->tensors()[i];
    ranges.push_back({tensor.begin, tensor.end - tensor.begin, 0, keys[i]});
  }
  const std::vector<ScanRange> pieces = CutScanRanges(ranges);
  Result<DeviceBuffer> pieces_dev = UploadAll(pieces);
  Result<DeviceBuffer> digest_dev = DeviceBuffer::Make(sizeof(StateDigest));
  report_->Check(pieces_dev.ok() && digest_dev.ok(), "memory for the scan");
  if (!pieces_dev.ok() || !digest_dev.ok()) return;
  auto* sum_dev = reinterpret_cast<StateDigest*>(digest_dev->data_dev());
  const auto measure = [&](const std::string& name, uint32_t lanes, uint32_t most_blocks) {
    Measure(name, 0, [&] {
      XORBIT_RETURN_IF_ERROR(CudaStatus(cudaMemsetAsync(sum_dev, 0, sizeof(StateDigest), stream()), "cudaMemsetAsync"));
      return LaunchScan(reinterpret_cast<const ScanRange*>(pieces_dev->data_dev()), pieces.size(), lanes, most_blocks, sum_dev,
                        stream());
    });
    StateDigest found;
    report_->Check(CudaStatus(cudaMemcpy(&found, sum_dev, sizeof(found), cudaMemcpyDeviceToHost), "cudaMemcpy of a digest"),
                   name);
    return found;
  };
  const StateDigest both = measure("scan of both lanes", 2, 0);
  const StateDigest one = measure("scan of one lane", 1, 0);
  const StateDigest slow = measure("scan of both lanes by 33 blocks", 2, 33);
  const bool agree = both != StateDigest{} && slow == both && one.lane0 == both.lane0 && one.lane1 == 0;
  report_->Check(agree ? Status() : CorruptError("scans of the same bytes found different digests"), model_->name + ", scan");
}

}  // namespace

void BenchReceive(const BigModel& model, const BenchOptions& options, Report* report) {
  const double payload_bytes = static_cast<double>(model.payload_bytes.size());
  report->Note(model.name, "live bytes", std::to_string(model.byte_count));
  report->Note(model.name, "tensors", std::to_string(model.layout.tensors().size()));
  report->Note(model.name, "payload bytes", std::to_string(model.payload_bytes.size()));
  report->Note(model.name, "payload over entropy", std::to_string(payload_bytes / model.entropy_bytes));
  Result<LiveModel> live = LiveModel::Make(model, report);
  report->Check(live.status(), model.name + ": live memory");
  if (!live.ok()) return;
  live->Verify(false, "filling");
  Stages stages(model, &*live, report);
  const Status plan_status = stages.Plan();
  report->Check(plan_status, model.name + ": planning");
  if (!plan_status.ok()) return;
  const auto stage_as = [&](bool keep_log, uint32_t bitmap_bytes_per_change) {
    StageOptions stage;
    stage.keep_undo_log = keep_log;
    const Status status = stages.Stage(stage, bitmap_bytes_per_change);
    report->Check(status, model.name + ": staging");
    return status.ok();
  };
  std::vector<uint32_t> limits = options.bitmap_bytes_per_change;
  limits.push_back(kBitmapBytesPerChange);
  for (const uint32_t limit : limits) {
    if (!stage_as(false, limit)) return;
    const bool has_bitmaps = stages.bitmap_tile_count() > 0;
    if (limit > 0 && !has_bitmaps) continue;
    const std::string suffix = limit == 0 ? "" : " laid out from a change in " + std::to_string(limit) + " bytes";
    for (const uint32_t blocks : options.blocks_per_multiprocessor) {
      stages.MeasurePreflight(blocks, "pre-flight" + suffix);
      if (has_bitmaps) stages.MeasureBitmaps(blocks, "laying out" + suffix);
      stages.MeasureXor(blocks, ApplyKind::kReturningXor, "apply by returning XOR and check" + suffix);
      stages.MeasureXor(blocks, ApplyKind::kXor, "apply by XOR" + suffix);
      stages.MeasureCompare(blocks, "comparison" + suffix);
    }
  }
  if (options.with_undo_log && stage_as(true, 0)) {
    for (const uint32_t blocks : options.blocks_per_multiprocessor) {
      stages.MeasurePreflight(blocks, "pre-flight with undo log");
      stages.MeasureStores(blocks);
    }
  }
  const auto backend = MakeCudaBackend();
  report->Check(backend.status(), "the CUDA backend");
  if (backend.ok()) stages.MeasurePause(**backend, false);
  if (backend.ok() && options.with_undo_log) stages.MeasurePause(**backend, true);
  live->Verify(false, "everything");
  stages.MeasureScan();
}

void BenchYardsticks(uint64_t byte_count, Report* report) {
  const uint64_t bytes = byte_count / 32 * 32;
  Result<DeviceBuffer> memory = DeviceBuffer::Make(bytes);
  Result<DeviceBuffer> sink = DeviceBuffer::Make(8);
  report->Check(memory.ok() && sink.ok(), "memory for the yardsticks");
  if (!memory.ok() || !sink.ok()) return;
  report->Check(CudaStatus(cudaMemsetAsync(memory->data_dev(), 1, bytes, report->stream()), "cudaMemsetAsync"), "fill");
  uint8_t* low = memory->data_dev();
  uint8_t* high = low + bytes / 2;
  report->Measure("yardstick", "read-only", bytes, 0,
                  [&] { return LaunchRead(low, bytes, reinterpret_cast<uint64_t*>(sink->data_dev()), report->stream()); });
  report->Measure("yardstick", "copy of half (read + write)", bytes, 0,
                  [&] { return LaunchCopy(low, high, bytes / 2, report->stream()); });
  report->Measure("yardstick", "read and write in place", 2 * bytes, 0,
                  [&] { return LaunchStream(low, bytes, 0, report->stream()); });
  report->Measure("yardstick", "dense XOR of half from a ready mask", bytes / 2 * 3, 0,
                  [&] { return LaunchDenseXor(low, high, bytes / 2, report->stream()); });
}

}  // namespace xorbit::cuda::testing
