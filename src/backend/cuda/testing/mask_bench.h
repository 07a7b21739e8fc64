// The described pipeline over a model as large as the GPU: the whole pause, and decoding and XOR each alone; every byte
// verified.
#pragma once

#include <string>
#include <vector>

#include "backend/cuda/testing/timing.h"

namespace xorbit::cuda::testing {

struct MaskBenchOptions {
  std::vector<std::string> codecs = {"snappy", "lz4"};
  std::vector<std::string> decoders = {"kernels"};
  std::vector<uint64_t> slot_megabytes = {0};
  bool tries_host = false;                  // frames in host memory too
  std::vector<uint64_t> portion_megabytes;  // also by portions that take so much to stage
};

// The NVFP4-like share of about `byte_count` bytes (MakeShare).
void BenchMasks(uint64_t byte_count, const MaskBenchOptions& options, Report* report);

}  // namespace xorbit::cuda::testing
