// A whole publication against plainly reading old and new: diff, encode, hashes, payload and receipt on disk, sealing, the
// decision, and the baseline brought forward.
//
// Readings and publications take turns, and the median of the ratios of neighbours is reported: `of_sum` by the clock on the
// wall, `of_sum_cpu` by processor time; 1 is the speed of reading. Beside it the medians of both and of each stage, in
// milliseconds. One rank owns the whole model and works with `threads`. The first publication is not counted: it meets memory
// that was never used.
//
//   publish_bench [--benchmark_min_time=10]      XORBIT_BENCH_MIB: size of the model (default 16; 1024 for a measurement),
//   store
//                                                under $TMPDIR or /tmp
#include <benchmark/benchmark.h>

#include <atomic>
#include <map>
#include <optional>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "against_sum.h"
#include "backend/cpu/cpu_backend.h"
#include "backend/cpu/kernels.h"
#include "base/parallel.h"
#include "base/temporary_folder.h"
#include "publish/decide.h"
#include "publish/rank_publisher.h"
#include "tensor/fingerprint.h"
#include "tensor/ownership.h"
#include "transport/folder_store.h"

namespace xorbit {
namespace {

constexpr uint64_t kTensors = 32;

// A BF16 model in memory, and a stream that begins with it.
class Trainer {
 public:
  Trainer() {
    const uint64_t tensor_bytes = BenchBytes() / kTensors;
    std::vector<TensorSpec> tensors;
    for (uint64_t i = 0; i < kTensors; ++i) {
      tensors.push_back(
          {.name = "layers." + std::to_string(100 + i) + ".weight", .dtype = Dtype::kBF16, .shape = {tensor_bytes / 2}});
      weights_.emplace_back(tensor_bytes);
      for (uint64_t at = 0; at < tensor_bytes; at += 8) StoreLe<uint64_t>(weights_.back().data() + at, random_());
    }
    layout_ = Layout::Make(std::move(tensors)).value();
    served_ = weights_;
    StreamInfo info;
    info.stream_id = "bench";
    info.base_fingerprint = BaseFingerprint(layout_, bytes(), DefaultThreadCount());
    info.base = backend_->Scan(layout_, bytes(), ScanScope::kAll, DefaultThreadCount());
    info.layout_digest = layout_.digest();
    stream_.emplace(Stream::Create(*store_, info, layout_).value());
  }

  std::vector<ConstBytes> bytes() const { return {weights_.begin(), weights_.end()}; }

  RankPublisher MakePublisher(int threads) {
    PublishOptions options;
    options.encode.threads = threads;
    options.timers = &timers_;
    auto owners = PlanOwners(layout_, 1, Split::kWhole).value();
    return RankPublisher::Make(*stream_, *backend_, std::move(PlansOf(std::move(owners)).front()), bytes(), options);
  }

  // One unit in the last place of about one element in a hundred.
  void Step() {
    for (Buffer& tensor : weights_) {
      std::geometric_distribution<uint64_t> gap(0.01);
      for (uint64_t i = gap(random_); i < tensor.size() / 2; i += 1 + gap(random_)) {
        const auto bits = LoadLe<uint16_t>(tensor.data() + 2 * i);
        StoreLe<uint16_t>(tensor.data() + 2 * i, static_cast<uint16_t>(bits + 1));
      }
    }
  }

  void Read(int threads) const {
    const CpuKernels& kernels = KernelsOf(ActiveCpuLevel());
    std::atomic<uint64_t> sum{0};
    const Status status = ParallelFor(threads, 2 * kTensors, [&](uint64_t i) {
      const Buffer& tensor = i < kTensors ? served_[i] : weights_[i - kTensors];
      sum += kernels.sum(tensor.data(), tensor.size());
      return Status();
    });
    if (!status.ok()) std::abort();
    benchmark::DoNotOptimize(sum.load());
  }

  void Publish(const PublicationPlace& place, RankPublisher* publisher) {
    const std::vector<ConstBytes> held = bytes();
    if (!publisher->Contribute(place, held).ok()) std::abort();
    if (!publisher->Settle(Decide(place)).value()) std::abort();
  }
  PublicationPlace NextPlace(const RankPublisher& publisher) {
    return {publisher.version(), stream_->NextFree().value(), "bench"};
  }

  // The stages since the last call.
  StageTimers TakeTimers() { return std::exchange(timers_, {}); }

 private:
  VersionRecord Decide(const PublicationPlace& place) {
    const Stage stage(&timers_, "seal + decide");
    return SealAndDecide(*stream_, place, {}).value();
  }

  std::mt19937_64 random_{1};
  StageTimers timers_;
  TemporaryFolder folder_;
  std::unique_ptr<Backend> backend_ = MakeCpuBackend();
  std::unique_ptr<ObjectStore> store_ = OpenFolderStore(PosixFileOps(), folder_ / "store").value();
  Layout layout_;
  std::vector<Buffer> served_;
  std::vector<Buffer> weights_;
  std::optional<Stream> stream_;
};

void Publish(benchmark::State& state) {
  static Trainer trainer;
  const auto threads = static_cast<int>(state.range(0));
  // Made once: the harness runs this function again and again, and the stream goes on.
  static RankPublisher publisher = trainer.MakePublisher(threads);
  const auto step_and_publish = [&] {
    trainer.Step();
    const PublicationPlace place = trainer.NextPlace(publisher);
    return Measure([&] { trainer.Publish(place, &publisher); });
  };
  if (publisher.version() == 0) step_and_publish();
  trainer.TakeTimers();
  std::vector<double> ratios;
  std::vector<double> cpu_ratios;
  std::map<std::string, std::vector<double>> milliseconds;
  for (auto _ : state) {
    const Times reading = Measure([&] { trainer.Read(threads); });
    const Times publishing = step_and_publish();
    state.SetIterationTime(publishing.wall_seconds);
    ratios.push_back(reading.wall_seconds / publishing.wall_seconds);
    cpu_ratios.push_back(reading.cpu_seconds / publishing.cpu_seconds);
    milliseconds["read ms"].push_back(1e3 * reading.wall_seconds);
    milliseconds["publish ms"].push_back(1e3 * publishing.wall_seconds);
    const StageTimers timers = trainer.TakeTimers();
    for (const StageTimers::Entry& stage : timers.entries()) milliseconds[stage.name + " ms"].push_back(1e3 * stage.seconds);
  }
  state.counters["of_sum"] = Median(ratios);
  state.counters["of_sum_cpu"] = Median(cpu_ratios);
  for (const auto& [name, values] : milliseconds) state.counters[name] = Median(values);
}
BENCHMARK(Publish)->ArgName("threads")->Arg(2)->UseManualTime()->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace xorbit
