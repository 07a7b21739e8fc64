// Diff, base digest and digest scan against a plain read-only sum, at memory speed.
//
// Each thread passes over its own part of prefaulted buffers far larger than the private caches. Bandwidth drifts from minute
// to minute where a machine is shared, so every case runs the sum over the same bytes in turns with what it measures and
// reports the median of the ratios of neighbours: `of_sum` by the clock on the wall, `of_sum_cpu` by processor time, which
// leaves out the time that other programs took; 1 is the speed of reading. GB/s counts the bytes read.
//
//   diff_bench [--benchmark_filter=...]      XORBIT_BENCH_MIB: size of old (default 16; 1024 for a measurement)
#include <benchmark/benchmark.h>
#include <sys/mman.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <functional>
#include <random>
#include <string>
#include <vector>

#include "against_sum.h"
#include "backend/cpu/diff_source.h"
#include "backend/cpu/digest_scan.h"
#include "base/parallel.h"
#include "change/state_digest.h"

namespace xorbit {
namespace {

// Anonymous memory in 2 MiB pages where the system gives them, as a trainer's or engine's own buffers are.
MutableBytes Allocate(uint64_t byte_count) {
  void* memory = mmap(nullptr, byte_count, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) std::abort();
  madvise(memory, byte_count, MADV_HUGEPAGE);
  return {static_cast<uint8_t*>(memory), byte_count};
}

// One BF16 tensor in two states; made once, the new state rewritten for each density.
struct Model {
  Layout layout;
  SegmentMap map;
  std::vector<uint64_t> keys;
  MutableBytes old_bytes;
  MutableBytes new_bytes;
  int64_t per_million = -1;

  explicit Model(uint64_t byte_count) : old_bytes(Allocate(byte_count)), new_bytes(Allocate(byte_count)) {
    layout = Layout::Make({{.name = "weight", .dtype = Dtype::kBF16, .shape = {byte_count / 2}}}).value();
    map = SegmentMap::Make(layout, 2, 0, {WholeTensor(layout, 0)}).value();
    keys = {TensorKeyOf("weight")};
    std::mt19937_64 random(1);
    for (uint64_t at = 0; at < byte_count; at += 8) StoreLe<uint64_t>(old_bytes.data() + at, random());
  }

  // Changes about per_million millionths of the elements, in one bit each.
  void SetDensity(int64_t wanted_per_million) {
    if (per_million == wanted_per_million) return;
    per_million = wanted_per_million;
    std::copy(old_bytes.begin(), old_bytes.end(), new_bytes.begin());
    if (per_million == 0) return;
    std::mt19937_64 random(2);
    std::geometric_distribution<uint64_t> gap(static_cast<double>(per_million) / 1e6);
    for (uint64_t i = gap(random); i < new_bytes.size() / 2; i += 1 + gap(random)) {
      new_bytes[2 * i] ^= static_cast<uint8_t>(1 << (random() % 8));
    }
  }
};

Model& SharedModel() {
  static Model model(BenchBytes());
  return model;
}

// Each of `threads` threads takes one stretch of whole windows.
void OnEachStretch(int threads, uint64_t window_count, const std::function<void(uint64_t first, uint64_t count)>& body) {
  const auto stretch_count = static_cast<uint64_t>(threads);
  const Status status = ParallelFor(threads, stretch_count, [&](uint64_t i) {
    const uint64_t first = window_count * i / stretch_count;
    body(first, window_count * (i + 1) / stretch_count - first);
    return Status();
  });
  if (!status.ok()) std::abort();
}

// Reads the given buffers by the best sum kernel; the result is kept so that reading cannot be left out.
uint64_t SumAll(const std::vector<ConstBytes>& buffers, int threads) {
  std::atomic<uint64_t> sum{0};
  for (const ConstBytes buffer : buffers) {
    OnEachStretch(threads, buffer.size() / 65536, [&](uint64_t first, uint64_t count) {
      sum += KernelsOf(BestCpuLevel()).sum(buffer.data() + first * 65536, count * 65536);
    });
  }
  return sum;
}

// Runs `work` and the sum over `read` in turns and reports both.
void RunAgainstSum(benchmark::State& state, const std::vector<ConstBytes>& read, int threads,
                   const std::function<void()>& work) {
  uint64_t byte_count = 0;
  for (const ConstBytes buffer : read) byte_count += buffer.size();
  std::vector<double> ratios;
  std::vector<double> cpu_ratios;
  std::vector<double> rates;
  std::vector<double> cpu_rates;
  uint64_t sum = 0;
  for (auto _ : state) {
    const Times reading = Measure([&] { sum += SumAll(read, threads); });
    const Times working = Measure(work);
    state.SetIterationTime(working.wall_seconds);
    ratios.push_back(reading.wall_seconds / working.wall_seconds);
    cpu_ratios.push_back(reading.cpu_seconds / working.cpu_seconds);
    rates.push_back(static_cast<double>(byte_count) / working.wall_seconds / 1e9);
    cpu_rates.push_back(static_cast<double>(byte_count) / working.cpu_seconds / 1e9);
  }
  benchmark::DoNotOptimize(sum);
  state.counters["of_sum"] = Median(ratios);
  state.counters["of_sum_cpu"] = Median(cpu_ratios);
  state.counters["GB/s"] = Median(rates);
  state.counters["GB/cpu_s"] = Median(cpu_rates);
}

void BM_Diff(benchmark::State& state, CpuLevel level, int64_t per_million, int threads, DiffSource::BaseDigest base_digest) {
  Model& model = SharedModel();
  model.SetDensity(per_million);
  if (!ForceCpuLevel(level).ok()) std::abort();
  const std::vector<ConstBytes> old_tensors = {model.old_bytes};
  const std::vector<ConstBytes> new_tensors = {model.new_bytes};
  std::atomic<uint64_t> changes{0};
  StateDigest digest;
  RunAgainstSum(state, {model.old_bytes, model.new_bytes}, threads, [&] {
    changes = 0;
    const SegmentBytes old_bytes = SegmentBytes::InTensors(model.map, old_tensors);
    const SegmentBytes new_bytes = SegmentBytes::InTensors(model.map, new_tensors);
    const DiffSource source(model.map, old_bytes, new_bytes, model.keys, base_digest);
    OnEachStretch(threads, WindowCountOf(source.element_count()), [&](uint64_t first, uint64_t count) {
      WindowChanges window;
      window.Reserve(2, true);
      const auto cursor = source.Open(first, count);
      uint64_t found = 0;
      for (uint64_t i = 0; i < count; ++i) {
        if (!cursor->Next(&window).ok()) std::abort();
        found += window.count;
      }
      changes += found;
    });
    if (base_digest == DiffSource::BaseDigest::kAccumulate) digest = source.FinishBaseDigest();
  });
  state.counters["changes"] = static_cast<double>(changes);
  if (base_digest == DiffSource::BaseDigest::kAccumulate) state.SetLabel("digest " + ToText(digest));
}

void BM_DigestScan(benchmark::State& state, CpuLevel level, int threads) {
  Model& model = SharedModel();
  if (!ForceCpuLevel(level).ok()) std::abort();
  const std::vector<ConstBytes> tensors = {model.old_bytes};
  StateDigest digest;
  RunAgainstSum(state, tensors, threads, [&] { digest = ScanDigest(model.layout, tensors, ScanScope::kAll, threads); });
  state.SetLabel("digest " + ToText(digest));
}

void RegisterAll() {
  for (const CpuLevel level : AvailableCpuLevels()) {
    for (const int threads : {1, 2}) {
      const std::string ending = "/" + std::string(NameOf(level)) + "/threads:" + std::to_string(threads);
      const auto add = [&](const std::string& name, auto function) {
        benchmark::RegisterBenchmark((name + ending).c_str(), function)->UseManualTime()->Unit(benchmark::kMillisecond);
      };
      for (const int64_t per_million : {0, 850, 10'000, 100'000}) {
        add("diff/per_million:" + std::to_string(per_million),
            [=](benchmark::State& state) { BM_Diff(state, level, per_million, threads, DiffSource::BaseDigest::kSkip); });
      }
      add("diff+base_digest/per_million:0",
          [=](benchmark::State& state) { BM_Diff(state, level, 0, threads, DiffSource::BaseDigest::kAccumulate); });
      add("digest_scan", [=](benchmark::State& state) { BM_DigestScan(state, level, threads); });
    }
  }
}

const bool kRegistered = (RegisterAll(), true);

}  // namespace
}  // namespace xorbit
