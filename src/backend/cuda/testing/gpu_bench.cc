#include "backend/cuda/testing/gpu_bench.h"

#include <cuda_runtime_api.h>

#include "backend/cuda/cuda_status.h"
#include "backend/cuda/device.h"
#include "backend/cuda/testing/receive_bench.h"

namespace xorbit {

using cuda::testing::BigModel;

Result<GpuBenchReport> RunGpuBench(const GpuBenchOptions& options) {
  XORBIT_RETURN_IF_ERROR(cuda::CheckDevices());
  cudaDeviceProp device{};
  XORBIT_RETURN_IF_ERROR(cuda::CudaStatus(cudaGetDeviceProperties(&device, 0), "cudaGetDeviceProperties"));
  XORBIT_ASSIGN_OR_RETURN(const cuda::Stream stream, cuda::MakeStream());
  GpuBenchReport answer;
  answer.device = device.name;
  cuda::testing::Report report(stream.get(), options.rounds, [&](const std::string& line) { answer.csv += line + "\n"; });
  report.Note("device", "name", device.name);
  const auto measure = [&](const Result<BigModel>& model) -> Status {
    XORBIT_RETURN_IF_ERROR(model.status());
    cuda::testing::BenchReceive(*model, {}, &report);
    return {};
  };
  if (options.yardstick_bytes > 0) cuda::testing::BenchYardsticks(options.yardstick_bytes, &report);
  if (options.share_bytes > 0) XORBIT_RETURN_IF_ERROR(measure(cuda::testing::MakeShare(options.share_bytes, false)));
  for (const auto& [dtype, byte_count] : {std::pair(Dtype::kBF16, options.bf16_bytes), {Dtype::kF8E4M3, options.fp8_bytes}}) {
    if (byte_count == 0) continue;
    for (const double percent : options.percents) {
      XORBIT_RETURN_IF_ERROR(measure(cuda::testing::MakeMatrices(dtype, byte_count, percent / 100)));
    }
  }
  if (report.failure_count() > 0) {
    return CorruptError(std::to_string(report.failure_count()) + " checks failed on " + answer.device +
                        ", the first: " + report.first_failure());
  }
  for (const cuda::testing::ReportRow& row : report.rows()) {
    if (row.runs == 0) continue;
    answer.rows.push_back({row.benchmark, row.variant, row.timing.median_ms, row.timing.least_ms, row.timing.most_ms,
                           row.byte_count, row.change_count});
  }
  return answer;
}

}  // namespace xorbit
