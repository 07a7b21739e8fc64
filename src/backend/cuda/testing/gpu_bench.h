// The CUDA receiver's benchmark, for who knows nothing of CUDA: `xorbit bench --backend cuda`.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "base/status.h"

namespace xorbit {

struct GpuBenchOptions {
  uint64_t share_bytes = 111'250'000'000;     // one GPU's share of the reference's workload; 0: leave it out
  uint64_t bf16_bytes = 100'000'000'000;      // BF16 matrices
  uint64_t fp8_bytes = 0;                     // FP8 matrices
  std::vector<double> percents;               // shares of their elements that change
  uint64_t yardstick_bytes = 40'000'000'000;  // read, copied and XORed for comparison
  int rounds = 20;
};

// Times are medians, least and most over `rounds` runs.
struct GpuBenchRow {
  std::string benchmark;
  std::string variant;
  double median_ms = 0;
  double least_ms = 0;
  double most_ms = 0;
  uint64_t byte_count = 0;
  uint64_t change_count = 0;
};

struct GpuBenchReport {
  std::string device;
  std::vector<GpuBenchRow> rows;
  std::string csv;  // every row and note
};

// Runs on the first GPU, whose memory must be free; every byte is verified. kUnsupported as MakeCudaBackend; kCorrupt if
// anything is wrong after an apply or undo.
Result<GpuBenchReport> RunGpuBench(const GpuBenchOptions& options);

}  // namespace xorbit
