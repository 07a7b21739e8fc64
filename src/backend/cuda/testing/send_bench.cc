// Both states lie in one piece of memory, so that one read-only kernel over it is the yardstick.
#include "backend/cuda/testing/send_bench.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <map>

#include "backend/cpu/cpu_backend.h"
#include "backend/cuda/cuda_sender.h"
#include "backend/cuda/cuda_status.h"
#include "backend/cuda/testing/bench_kernels.h"
#include "backend/cuda/testing/formula_source.h"
#include "base/parallel.h"
#include "base/sha256.h"
#include "codec/change_digest.h"

namespace xorbit::cuda::testing {
namespace {

constexpr uint64_t kTensorBytes = uint64_t{64} << 20;

struct SendModel {
  std::string name;
  Layout layout;
  SegmentMap map;
  ChangeFormula formula;
  uint64_t byte_count = 0;
  uint64_t room = 0;
};

Result<SendModel> MakeModel(const std::string& name, double gigabytes, Dtype dtype, const ChangeFormula& formula,
                            double share_of_elements) {
  SendModel model;
  model.name = name;
  model.formula = formula;
  const auto tensor_count = static_cast<uint64_t>(gigabytes * 1e9) / kTensorBytes;
  std::vector<TensorSpec> tensors;
  std::vector<Part> parts;
  for (uint64_t i = 0; i < tensor_count; ++i) {
    TensorSpec tensor;
    tensor.name = "layers." + std::to_string(100'000 + i) + ".weight";
    tensor.dtype = dtype;
    tensor.shape = {kTensorBytes / UnitBytesOf(dtype)};
    tensors.push_back(std::move(tensor));
  }
  XORBIT_ASSIGN_OR_RETURN(model.layout, Layout::Make(std::move(tensors)));
  for (uint32_t i = 0; i < tensor_count; ++i) parts.push_back(WholeTensor(model.layout, i));
  XORBIT_ASSIGN_OR_RETURN(model.map, SegmentMap::Make(model.layout, UnitBytesOf(dtype), 0, std::move(parts)));
  model.byte_count = tensor_count * kTensorBytes;
  model.room = static_cast<uint64_t>(static_cast<double>(model.map.element_count()) * share_of_elements * 1.02) + 100'000;
  return model;
}

Status Fill(const SendModel& model, uint8_t* to_dev, bool changed, cudaStream_t stream) {
  constexpr uint64_t kPieceBytes = uint64_t{1} << 20;
  std::vector<FormulaPiece> pieces;
  for (uint64_t at = 0; at < model.byte_count; at += kPieceBytes) {
    pieces.push_back({reinterpret_cast<uint64_t>(to_dev) + at, kPieceBytes, at});
  }
  XORBIT_ASSIGN_OR_RETURN(const DeviceBuffer pieces_dev, DeviceBuffer::Make(pieces.size() * sizeof(FormulaPiece)));
  XORBIT_RETURN_IF_ERROR(
      Upload(pieces_dev.data_dev(), {reinterpret_cast<const uint8_t*>(pieces.data()), pieces.size() * sizeof(FormulaPiece)}));
  XORBIT_RETURN_IF_ERROR(
      LaunchFill(reinterpret_cast<const FormulaPiece*>(pieces_dev.data_dev()), pieces.size(), model.formula, changed, stream));
  return CudaStatus(cudaStreamSynchronize(stream), "cudaStreamSynchronize");
}

// Events at the ends of a sender's stages.
class StageTimes {
 public:
  explicit StageTimes(cudaStream_t stream) : stream_(stream) {}
  void Mark(std::string_view stage) {
    if (used_ == events_.size()) {
      Result<Event> event = MakeEvent();
      if (!event.ok()) return;
      events_.push_back(std::move(*event));
    }
    cudaEventRecord(events_[used_].get(), stream_);
    names_.resize(used_);
    names_.emplace_back(stage);
    ++used_;
  }
  // Milliseconds of each stage since the one before; the whole under "all stages".
  std::vector<std::pair<std::string, double>> Take() {
    std::vector<std::pair<std::string, double>> times;
    for (size_t i = 1; i < used_; ++i) {
      times.emplace_back(names_[i], MillisecondsBetween(events_[i - 1], events_[i]).value());
    }
    if (used_ > 1) times.emplace_back("all stages", MillisecondsBetween(events_[0], events_[used_ - 1]).value());
    used_ = 0;
    return times;
  }

 private:
  cudaStream_t stream_;
  std::vector<Event> events_;
  std::vector<std::string> names_;
  size_t used_ = 0;
};

double MedianOf(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

// Runs the sender some times and prints each stage's median.
Result<SentSegment> MeasureStages(const SendModel& model, const std::string& variant, CudaSender* sender, int repeats,
                                  double read_ms, Report* report) {
  StageTimes stages(report->stream());
  sender->set_mark([&](std::string_view stage) { stages.Mark(stage); });
  SentSegment sent;
  std::vector<std::string> order;
  std::map<std::string, std::vector<double>> times;
  constexpr int kWarmUps = 2;
  for (int i = 0; i < kWarmUps + repeats; ++i) {
    stages.Mark("start");
    XORBIT_ASSIGN_OR_RETURN(sent, sender->Encode());
    for (const auto& [stage, milliseconds] : stages.Take()) {
      if (i == 0) order.push_back(stage);
      if (i >= kWarmUps) times[stage].push_back(milliseconds);
    }
  }
  sender->set_mark({});
  for (const std::string& stage : order) {
    report->AddTimes(model.name, variant + stage, 2 * model.byte_count, sent.change_count, times[stage]);
  }
  const double all_ms = MedianOf(times["all stages"]);
  report->Note(model.name, variant + "all stages against the read-only kernel", std::to_string(read_ms / all_ms));
  report->Note(model.name, variant + "diff against the read-only kernel", std::to_string(read_ms / MedianOf(times["diff"])));
  return sent;
}

// Copies the result to the host and hashes it there, timed; compares it with the CPU's if asked to.
Status CheckResult(const SendModel& model, const SentSegment& sent, const CudaSender& sender, bool verify, Report* report) {
  const uint64_t record_bytes = sent.record_count * sizeof(TileRecord);
  XORBIT_ASSIGN_OR_RETURN(const PinnedBuffer out, PinnedBuffer::Make(record_bytes + sent.body_bytes));
  uint8_t* const body = out.bytes().data() + record_bytes;
  report->Measure(model.name, "copy to pinned host memory", record_bytes + sent.body_bytes, sent.change_count,
                  [&] { return sender.CopyOut(sent, out.bytes().data(), body); });
  XORBIT_RETURN_IF_ERROR(CudaStatus(cudaStreamSynchronize(report->stream()), "cudaStreamSynchronize"));
  const auto start = std::chrono::steady_clock::now();
  constexpr uint64_t kChunk = uint64_t{512} << 10;
  XORBIT_RETURN_IF_ERROR(ParallelFor(DefaultThreadCount(), DivideRoundUp(sent.body_bytes, kChunk), [&](uint64_t i) -> Status {
    static_cast<void>(Sha256Of({body + i * kChunk, std::min(kChunk, sent.body_bytes - i * kChunk)}));
    return {};
  }));
  const std::chrono::duration<double, std::milli> hashing = std::chrono::steady_clock::now() - start;
  report->Note(model.name, "milliseconds to hash chunks on " + std::to_string(DefaultThreadCount()) + " threads",
               std::to_string(hashing.count()));
  report->Note(model.name, "body bytes", std::to_string(sent.body_bytes));
  report->Note(
      model.name, "bits a change",
      std::to_string(8.0 * static_cast<double>(sent.body_bytes + record_bytes) / static_cast<double>(sent.change_count)));
  if (!verify) return {};
  const FormulaSource source(model.formula, 0, model.map.unit_bytes(), model.map.element_count());
  EncodeOptions options;
  options.threads = DefaultThreadCount();
  options.change_cache_bytes = uint64_t{24} << 30;
  XORBIT_ASSIGN_OR_RETURN(const EncodedSegment want,
                          MakeCpuBackend()->Encode(model.layout, model.map, source, CodecId::kSparse, options));
  const EncodedSegment got =
      ToEncodedSegment(sent, model.map.unit_bytes(), out.bytes().first(record_bytes), {body, sent.body_bytes});
  Buffer want_body;
  for (const Buffer& piece : want.body) AppendBytes(want_body, piece);
  const bool same = want.tables == got.tables && want.records == got.records && want.change == got.change &&
                    (got.body.empty() ? want_body.empty() : want_body == got.body[0]);
  report->Check(same, model.name + ": tables, tiles or body are not the CPU's");
  report->Note(model.name, "equal to the CPU's bytes", same ? "yes" : "no");
  return {};
}

Status Bench(const Result<SendModel>& made, const SendBenchOptions& options, Report* report) {
  XORBIT_RETURN_IF_ERROR(made.status());
  const SendModel& model = *made;
  XORBIT_ASSIGN_OR_RETURN(const DeviceBuffer states, DeviceBuffer::Make(2 * model.byte_count + 256));
  uint8_t* const new_dev = states.data_dev() + model.byte_count;
  XORBIT_RETURN_IF_ERROR(Fill(model, states.data_dev(), false, report->stream()));
  XORBIT_RETURN_IF_ERROR(Fill(model, new_dev, true, report->stream()));
  XORBIT_ASSIGN_OR_RETURN(const DeviceBuffer sink, DeviceBuffer::Make(8));
  const double read_ms = report
                             ->Measure(model.name, "read both states only", 2 * model.byte_count, 0,
                                       [&] {
                                         return LaunchRead(states.data_dev(), 2 * model.byte_count,
                                                           reinterpret_cast<uint64_t*>(sink.data_dev()), report->stream());
                                       })
                             .median_ms;
  const auto start = std::chrono::steady_clock::now();
  const SendPlan plan =
      PlanSend(model.map, TensorKeysOf(model.layout), SegmentBytes::InImage(model.map, {states.data_dev(), model.byte_count}),
               SegmentBytes::InImage(model.map, {new_dev, model.byte_count}));
  const std::chrono::duration<double, std::milli> planning = std::chrono::steady_clock::now() - start;
  report->Note(model.name, "milliseconds to plan, once", std::to_string(planning.count()));
  for (const bool with_base : {true, false}) {
    SenderOptions sender_options;
    sender_options.with_base = with_base;
    sender_options.sizes.change_count = model.room;
    const uint64_t device_bytes = CudaSender::DeviceBytesFor(plan, sender_options);
    report->Note(model.name, "device bytes of the sender", std::to_string(device_bytes));
    XORBIT_ASSIGN_OR_RETURN(const DeviceBuffer memory, DeviceBuffer::Make(device_bytes));
    XORBIT_ASSIGN_OR_RETURN(const PinnedBuffer pinned, PinnedBuffer::Make(CudaSender::kPinnedBytes));
    XORBIT_ASSIGN_OR_RETURN(CudaSender sender,
                            CudaSender::Make(plan, sender_options, memory.data_dev(), pinned.bytes(), report->stream()));
    const std::string variant = with_base ? "with base digest: " : "";
    XORBIT_ASSIGN_OR_RETURN(const SentSegment sent, MeasureStages(model, variant, &sender, options.repeats, read_ms, report));
    if (with_base || sent.change_count == 0) continue;
    XORBIT_RETURN_IF_ERROR(CheckResult(model, sent, sender, options.verify, report));
    report->Measure(model.name, "bring the baseline forward", 0, sent.change_count, [&] { return sender.BringForward(); });
  }
  return {};
}

ChangeFormula OnePercentOfBf16() {
  ChangeFormula bf16;
  bf16.unit_bytes = 2;
  bf16.element_threshold = static_cast<uint64_t>(std::llround(0.01 * 4294967296.0));
  return bf16;
}

Status BenchPinned(double gigabytes, Report* report) {
  XORBIT_ASSIGN_OR_RETURN(const SendModel model,
                          MakeModel("send-pinned-bf16-1%", gigabytes, Dtype::kBF16, OnePercentOfBf16(), 0.01));
  XORBIT_ASSIGN_OR_RETURN(const DeviceBuffer states, DeviceBuffer::Make(2 * model.byte_count));
  uint8_t* const new_dev = states.data_dev() + model.byte_count;
  XORBIT_RETURN_IF_ERROR(Fill(model, states.data_dev(), false, report->stream()));
  XORBIT_RETURN_IF_ERROR(Fill(model, new_dev, true, report->stream()));
  XORBIT_ASSIGN_OR_RETURN(const PinnedBuffer olds, PinnedBuffer::Make(model.byte_count));
  const double copy_ms =
      report
          ->Measure(model.name, "copy of old bytes over the bus", model.byte_count, 0,
                    [&] {
                      return CudaStatus(cudaMemcpyAsync(olds.bytes().data(), states.data_dev(), model.byte_count,
                                                        cudaMemcpyDeviceToHost, report->stream()),
                                        "cudaMemcpyAsync");
                    })
          .median_ms;
  const SendPlan plan = PlanSend(model.map, TensorKeysOf(model.layout), SegmentBytes::InImage(model.map, olds.bytes()),
                                 SegmentBytes::InImage(model.map, {new_dev, model.byte_count}));
  for (const uint64_t slot_bytes : {uint64_t{0}, uint64_t{16} << 20, uint64_t{64} << 20}) {
    SenderOptions options;
    options.sizes.change_count = model.room;
    options.sizes.slot_bytes = slot_bytes;
    XORBIT_ASSIGN_OR_RETURN(const DeviceBuffer memory, DeviceBuffer::Make(CudaSender::DeviceBytesFor(plan, options)));
    XORBIT_ASSIGN_OR_RETURN(const PinnedBuffer pinned, PinnedBuffer::Make(CudaSender::kPinnedBytes));
    XORBIT_ASSIGN_OR_RETURN(CudaSender sender,
                            CudaSender::Make(plan, options, memory.data_dev(), pinned.bytes(), report->stream()));
    const std::string variant = slot_bytes == 0 ? "as they are: " : std::to_string(slot_bytes >> 20) + " MiB slots: ";
    XORBIT_RETURN_IF_ERROR(MeasureStages(model, variant, &sender, report->repeats(), copy_ms, report).status());
  }
  return {};
}

}  // namespace

void BenchPinnedSend(double gigabytes, Report* report) {
  report->Check(BenchPinned(gigabytes, report), "sender benchmark of pinned old bytes");
}

void BenchSend(const SendBenchOptions& options, Report* report) {
  ChangeFormula bytes;
  bytes.cell_threshold = static_cast<uint64_t>(std::llround(0.00085 * 16 * 4294967296.0));
  report->Check(Bench(MakeModel("send-bytes-unchanged", options.gigabytes, Dtype::kU8, ChangeFormula{}, 0), options, report),
                "sender benchmark of equal states");
  report->Check(Bench(MakeModel("send-bytes-0.085%", options.gigabytes, Dtype::kU8, bytes, 0.00085), options, report),
                "sender benchmark of bytes");
  report->Check(Bench(MakeModel("send-bf16-1%", options.gigabytes, Dtype::kBF16, OnePercentOfBf16(), 0.01), options, report),
                "sender benchmark of BF16");
}

}  // namespace xorbit::cuda::testing
