// Medians over single launches, so that a slow one shows in the most and not in the middle.
#include "timing.h"

#include <algorithm>
#include <cstdio>

#include "backend/cuda/cuda_status.h"

namespace xorbit::gpu_check {
namespace {

constexpr int kWarmUps = 2;

Result<std::vector<double>> TimeRuns(cudaStream_t stream, int repeats, const std::function<Status()>& launch) {
  XORBIT_ASSIGN_OR_RETURN(const cuda::Event begin, cuda::MakeEvent());
  XORBIT_ASSIGN_OR_RETURN(const cuda::Event end, cuda::MakeEvent());
  std::vector<double> times;
  for (int i = 0; i < kWarmUps + repeats; ++i) {
    XORBIT_RETURN_IF_ERROR(cuda::CudaStatus(cudaEventRecord(begin.get(), stream), "cudaEventRecord"));
    XORBIT_RETURN_IF_ERROR(launch());
    XORBIT_RETURN_IF_ERROR(cuda::CudaStatus(cudaEventRecord(end.get(), stream), "cudaEventRecord"));
    XORBIT_ASSIGN_OR_RETURN(const double milliseconds, cuda::MillisecondsBetween(begin, end));
    if (i >= kWarmUps) times.push_back(milliseconds);
  }
  std::sort(times.begin(), times.end());
  return times;
}

}  // namespace

Timing Report::Measure(const std::string& benchmark, const std::string& variant, uint64_t byte_count, uint64_t change_count,
                       const std::function<Status()>& launch) {
  const Result<std::vector<double>> times = TimeRuns(stream_, repeats_, launch);
  Check(times.status(), benchmark + ", " + variant);
  if (!times.ok()) return {};
  const Timing timing{(*times)[times->size() / 2], times->front(), times->back()};
  const double seconds = timing.median_ms / 1e3;
  std::printf("time,%s,%s,%.4f,%.4f,%.4f,%zu,%llu,%llu,%.1f,%.3f\n", benchmark.c_str(), variant.c_str(), timing.median_ms,
              timing.least_ms, timing.most_ms, times->size(), static_cast<unsigned long long>(byte_count),
              static_cast<unsigned long long>(change_count), static_cast<double>(byte_count) / seconds / 1e9,
              static_cast<double>(change_count) / seconds / 1e9);
  std::fflush(stdout);
  return timing;
}

void Report::Note(const std::string& benchmark, const std::string& name, const std::string& value) {
  std::printf("note,%s,%s,%s\n", benchmark.c_str(), name.c_str(), value.c_str());
  std::fflush(stdout);
}

void Report::Check(bool holds, const std::string& what) {
  ++check_count_;
  if (holds) return;
  ++failure_count_;
  // A broken kernel fails everywhere; the first failures say enough.
  constexpr uint64_t kMostPrinted = 40;
  if (failure_count_ <= kMostPrinted) std::printf("FAILED,%s\n", what.c_str());
  std::fflush(stdout);
}

Status Upload(uint8_t* to_dev, ConstBytes from) {
  return cuda::CudaStatus(cudaMemcpy(to_dev, from.data(), from.size(), cudaMemcpyHostToDevice), "cudaMemcpy to the device");
}
Status Download(MutableBytes to, const uint8_t* from_dev) {
  return cuda::CudaStatus(cudaMemcpy(to.data(), from_dev, to.size(), cudaMemcpyDeviceToHost), "cudaMemcpy from the device");
}

}  // namespace xorbit::gpu_check
