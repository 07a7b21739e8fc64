// `xorbit bench --backend cuda`: the receiver's stages on this machine's GPU, as a table and a CSV file.
#pragma once

#include "backend/cuda/testing/gpu_bench.h"
#include "cli/command.h"

namespace xorbit {

struct CudaBenchOptions {
  double share_gigabytes = 111.25;
  double bf16_gigabytes = 100;
  double fp8_gigabytes = 0;
  std::vector<double> percents = {0.1, 1, 3, 10, 30, 50};
  double yardstick_gigabytes = 40;
  std::string csv;  // a file to write; empty: none
};

void AddCudaBenchOptions(CLI::App* command, CudaBenchOptions* options);

Result<Answer> RunCudaBench(const CudaBenchOptions& options, int rounds);

}  // namespace xorbit
