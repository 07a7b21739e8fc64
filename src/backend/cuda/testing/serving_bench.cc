// The engine and the background each have a thread, as they do in a process that serves.
#include "backend/cuda/testing/serving_bench.h"

#include <fmt/core.h>

#include <algorithm>
#include <atomic>
#include <cmath>

#include "backend/cuda/cuda_backend.h"
#include "backend/cuda/cuda_status.h"
#include "backend/cuda/testing/serving_loads.h"
#include "base/parallel.h"
#include "base/stopwatch.h"

namespace xorbit::cuda::testing {
namespace {

struct Setting {
  const char* name;
  ServingThrottle throttle;
};

// Slices in microseconds, blocks, the kernels' share of the time, the copies'.
const Setting kKernelSettings[] = {{"unthrottled", ServingThrottle::None()},
                                   {"default", {}},
                                   {"4 blocks all the time", {100, 4, 1, 1}},
                                   {"32 blocks a tenth of the time", {100, 32, 0.1, 1}}};
const Setting kCopySettings[] = {
    {"unthrottled", ServingThrottle::None()}, {"default", {}}, {"half the time in long slices", {100, 0, 1, 0.5}}};

// The least time that `share` of them do not exceed.
double Percentile(std::vector<double> times, double share) {
  const auto rank = static_cast<std::ptrdiff_t>(std::ceil(share * static_cast<double>(times.size()))) - 1;
  std::nth_element(times.begin(), times.begin() + rank, times.end());
  return times[static_cast<size_t>(rank)];
}

class ServingBench {
 public:
  ServingBench(const DecodeLoop& decode, const ServingOptions& options, Report* report)
      : decode_(decode), options_(options), report_(report) {}

  using Pass = std::function<Status()>;
  void Measure(const std::string& load, const std::string& throttle, const Pass& pass);

 private:
  struct Phase {
    std::vector<double> step_ms;
    std::vector<double> pass_ms;
  };
  Result<Phase> Run(const Pass& pass) const;

  const DecodeLoop& decode_;
  ServingOptions options_;
  Report* report_;
  double alone_p50_ms_ = 0;  // of the first measurement
  double alone_p99_ms_ = 0;
};

// Steps enough, and at least one whole pass, unless it takes very long.
Result<ServingBench::Phase> ServingBench::Run(const Pass& pass) const {
  Phase phase;
  std::atomic<bool> is_over = false;
  std::atomic<uint64_t> pass_count = 0;
  const auto decode = [&]() -> Status {
    const uint64_t most_steps = 4 * options_.least_steps;
    Result<std::vector<double>> times = decode_.Run(
        [&](uint64_t steps) { return steps >= options_.least_steps && (!pass || pass_count > 0 || steps >= most_steps); });
    is_over = true;
    XORBIT_RETURN_IF_ERROR(times.status());
    phase.step_ms = std::move(times).value();
    return {};
  };
  const auto load = [&]() -> Status {
    while (pass && !is_over) {
      const Stopwatch stopwatch;
      XORBIT_RETURN_IF_ERROR(pass());
      phase.pass_ms.push_back(stopwatch.seconds() * 1e3);
      ++pass_count;
    }
    return {};
  };
  XORBIT_RETURN_IF_ERROR(ParallelFor(2, 2, [&](uint64_t index) { return index == 0 ? decode() : load(); }));
  return phase;
}

void ServingBench::Measure(const std::string& load, const std::string& throttle, const Pass& pass) {
  const Result<Phase> phase = Run(pass);
  report_->Check(phase.status(), "serving beside " + load + ", " + throttle);
  if (!phase.ok()) return;
  const std::vector<double>& times = phase->step_ms;
  const double p50 = Percentile(times, 0.5);
  const double p99 = Percentile(times, 0.99);
  if (alone_p50_ms_ == 0) {
    alone_p50_ms_ = p50;
    alone_p99_ms_ = p99;
  }
  report_->Line(fmt::format("serving,{},{},{},{:.3f},{:.3f},{:.3f},{:.4f},{:.4f},{:.2f},{}", load, throttle, times.size(), p50,
                            p99, Percentile(times, 1), p50 / alone_p50_ms_, p99 / alone_p99_ms_,
                            phase->pass_ms.empty() ? 0 : Median(phase->pass_ms), phase->pass_ms.size()));
  report_->AddTimes("serving", load + " " + throttle, options_.decode.step_bytes, 0, times);
}

}  // namespace

void BenchServing(const BigModel& model, const ServingOptions& options, Report* report) {
  Result<LiveModel> live = LiveModel::Make(model, report);
  report->Check(live.status(), model.name + ": live memory");
  if (!live.ok()) return;
  live->Verify(false, "filling");
  Result<ServingLoads> loads = ServingLoads::Make(model, *live);
  report->Check(loads.status(), model.name + ": the background");
  const Result<DecodeLoop> decode = DecodeLoop::Make(live->data_dev(), model.byte_count, options.decode);
  report->Check(decode.status(), model.name + ": the engine");
  const auto backend = MakeCudaBackend();
  report->Check(backend.status(), "the CUDA backend");
  if (!loads.ok() || !decode.ok() || !backend.ok()) return;
  report->Note("serving", "payload bytes", std::to_string(model.payload_bytes.size()));
  report->Note("serving", "model bytes", std::to_string(model.byte_count));
  report->Note("serving", "scanned bytes", std::to_string(loads->scanned_bytes()));
  ServingBench bench(*decode, options, report);
  bench.Measure("nothing", "", {});
  for (const auto& [name, throttle] : kCopySettings) {
    bench.Measure("fetch", name, [&] { return loads->Fetch(throttle); });
  }
  for (const auto& [name, throttle] : kKernelSettings) {
    bench.Measure("pre-flight", name, [&] { return loads->Preflight(throttle); });
  }
  for (const auto& [name, throttle] : kKernelSettings) {
    bench.Measure("scan", name, [&] { return loads->Scan(throttle); });
  }
  // All of it, with what surrounds it: memory taken and given back, plans, copies of pageable memory.
  const std::vector<MutableBytes> regions = live->bytes();
  const LiveMemory memory{&model.map, regions, {}};
  bench.Measure("Prepare", "default", [&] { return (*backend)->Prepare(model.layout, model.payloads, memory, {}).status(); });
  bench.Measure("nothing", "again", {});
}

}  // namespace xorbit::cuda::testing
