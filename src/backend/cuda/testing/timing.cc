// Medians over single launches, so that a slow one shows in the most and not in the middle.
#include "backend/cuda/testing/timing.h"

#include <fmt/core.h>

#include <algorithm>

#include "backend/cuda/cuda_status.h"

namespace xorbit::cuda::testing {
namespace {

constexpr int kWarmUps = 2;

Result<std::vector<double>> TimeRuns(cudaStream_t stream, int repeats, const std::function<Status()>& launch) {
  XORBIT_ASSIGN_OR_RETURN(const Event begin, MakeEvent());
  XORBIT_ASSIGN_OR_RETURN(const Event end, MakeEvent());
  std::vector<double> times;
  for (int i = 0; i < kWarmUps + repeats; ++i) {
    XORBIT_RETURN_IF_ERROR(CudaStatus(cudaEventRecord(begin.get(), stream), "cudaEventRecord"));
    XORBIT_RETURN_IF_ERROR(launch());
    XORBIT_RETURN_IF_ERROR(CudaStatus(cudaEventRecord(end.get(), stream), "cudaEventRecord"));
    XORBIT_ASSIGN_OR_RETURN(const double milliseconds, MillisecondsBetween(begin, end));
    if (i >= kWarmUps) times.push_back(milliseconds);
  }
  return times;
}

}  // namespace

std::string CsvLineOf(const ReportRow& row) {
  if (row.runs == 0) return fmt::format("note,{},{},{}", row.benchmark, row.variant, row.note);
  const double seconds = row.timing.median_ms / 1e3;
  return fmt::format("time,{},{},{:.4f},{:.4f},{:.4f},{},{},{},{:.1f},{:.3f}", row.benchmark, row.variant, row.timing.median_ms,
                     row.timing.least_ms, row.timing.most_ms, row.runs, row.byte_count, row.change_count,
                     static_cast<double>(row.byte_count) / seconds / 1e9,
                     static_cast<double>(row.change_count) / seconds / 1e9);
}

Timing Report::Measure(const std::string& benchmark, const std::string& variant, uint64_t byte_count, uint64_t change_count,
                       const std::function<Status()>& launch) {
  const Result<std::vector<double>> times = TimeRuns(stream_, repeats_, launch);
  Check(times.status(), benchmark + ", " + variant);
  if (!times.ok()) return {};
  AddTimes(benchmark, variant, byte_count, change_count, *times);
  return rows_.back().timing;
}

void Report::AddTimes(const std::string& benchmark, const std::string& variant, uint64_t byte_count, uint64_t change_count,
                      std::vector<double> times_ms) {
  std::sort(times_ms.begin(), times_ms.end());
  const Timing timing{times_ms[times_ms.size() / 2], times_ms.front(), times_ms.back()};
  rows_.push_back({benchmark, variant, timing, times_ms.size(), byte_count, change_count, ""});
  print_(CsvLineOf(rows_.back()));
}

void Report::Note(const std::string& benchmark, const std::string& name, const std::string& value) {
  rows_.push_back({benchmark, name, {}, 0, 0, 0, value});
  print_(CsvLineOf(rows_.back()));
}

void Report::Check(bool holds, const std::string& what) {
  ++check_count_;
  if (holds) return;
  ++failure_count_;
  // A broken kernel fails everywhere; the first failures say enough.
  constexpr uint64_t kMostPrinted = 40;
  if (failure_count_ == 1) first_failure_ = what;
  if (failure_count_ <= kMostPrinted) print_("FAILED," + what);
}

Status Upload(uint8_t* to_dev, ConstBytes from) {
  XORBIT_RETURN_IF_ERROR(
      CudaStatus(cudaMemcpy(to_dev, from.data(), from.size(), cudaMemcpyHostToDevice), "cudaMemcpy to the device"));
  // A copy from ordinary memory returns before its last bytes have arrived, and other streams do not wait for it.
  return CudaStatus(cudaDeviceSynchronize(), "cudaDeviceSynchronize after a copy");
}
Status Download(MutableBytes to, const uint8_t* from_dev) {
  return CudaStatus(cudaMemcpy(to.data(), from_dev, to.size(), cudaMemcpyDeviceToHost), "cudaMemcpy from the device");
}

}  // namespace xorbit::cuda::testing
