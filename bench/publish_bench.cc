// A whole publication against plainly reading old and new: diff, encode, hashes, payload and receipt on disk, sealing, the
// decision, and the baseline brought forward.
//
// Readings and publications take turns, and the median of the ratios of neighbours is reported: `of_sum`, 1 is the speed of
// reading. One rank owns the whole model and works with `threads`.
//
//   publish_bench      XORBIT_BENCH_MIB: size of the model (default 16; 1024 for a measurement), store under $TMPDIR or /tmp
#include <benchmark/benchmark.h>

#include <algorithm>
#include <atomic>
#include <charconv>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <random>
#include <string>
#include <vector>

#include "backend/cpu/cpu_backend.h"
#include "backend/cpu/kernels.h"
#include "base/parallel.h"
#include "base/stopwatch.h"
#include "base/temporary_folder.h"
#include "publish/decide.h"
#include "publish/rank_publisher.h"
#include "tensor/fingerprint.h"
#include "tensor/ownership.h"
#include "transport/folder_store.h"

namespace xorbit {
namespace {

constexpr uint64_t kTensors = 32;

uint64_t ModelBytes() {
  uint64_t mebibytes = 16;
  if (const char* text = std::getenv("XORBIT_BENCH_MIB"); text != nullptr) {
    std::from_chars(text, text + std::strlen(text), mebibytes);
  }
  return std::max<uint64_t>(mebibytes, 1) << 20;
}

// A BF16 model in memory, and a stream that begins with it.
class Trainer {
 public:
  Trainer() {
    const uint64_t tensor_bytes = ModelBytes() / kTensors;
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

  double ReadSeconds(int threads) const {
    const CpuKernels& kernels = KernelsOf(ActiveCpuLevel());
    std::atomic<uint64_t> sum{0};
    const Stopwatch watch;
    const Status status = ParallelFor(threads, 2 * kTensors, [&](uint64_t i) {
      const Buffer& tensor = i < kTensors ? served_[i] : weights_[i - kTensors];
      sum += kernels.sum(tensor.data(), tensor.size());
      return Status();
    });
    benchmark::DoNotOptimize(status.ok());
    return watch.seconds();
  }

  // Returns the seconds, or less than 0 if it failed.
  double PublishSeconds(RankPublisher* publisher) {
    const PublicationPlace place{publisher->version(), stream_->NextFree().value(), "bench"};
    const std::vector<ConstBytes> held = bytes();
    const Stopwatch watch;
    const Status contributed = publisher->Contribute(place, held);
    if (!contributed.ok()) return -1;
    const auto decided = SealAndDecide(*stream_, place, {});
    if (!decided.ok() || !publisher->Settle(*decided).ok()) return -1;
    return watch.seconds();
  }

 private:
  std::mt19937_64 random_{1};
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
  std::vector<double> ratios;
  for (auto _ : state) {
    trainer.Step();
    const double read_s = trainer.ReadSeconds(threads);
    const double publish_s = trainer.PublishSeconds(&publisher);
    if (publish_s < 0) {
      state.SkipWithError("a publication failed");
      return;
    }
    ratios.push_back(read_s / publish_s);
    state.SetIterationTime(publish_s);
  }
  std::sort(ratios.begin(), ratios.end());
  state.counters["of_sum"] = ratios[ratios.size() / 2];
  state.SetBytesProcessed(static_cast<int64_t>(2 * ModelBytes()) * static_cast<int64_t>(state.iterations()));
}
BENCHMARK(Publish)->ArgName("threads")->Arg(2)->UseManualTime()->Unit(benchmark::kMillisecond)->MinTime(0.01);

}  // namespace
}  // namespace xorbit
