// The receiver's stages over a model as large as the GPU: pre-flight, every way to apply, undo, scan; every byte verified.
#pragma once

#include "backend/cuda/testing/big_model.h"

namespace xorbit::cuda::testing {

struct BenchOptions {
  std::vector<uint32_t> blocks_per_multiprocessor = {0};
  std::vector<uint32_t> bitmap_bytes_per_change = {0};  // see PlanBitmaps; what the backend chooses is tried anyway
  bool with_undo_log = true;                            // measure absolute stores too
};

void BenchReceive(const BigModel& model, const BenchOptions& options, Report* report);

// Read-only, copy, read-write in place and dense XOR over `byte_count` bytes (half of it each for copies and masks).
void BenchYardsticks(uint64_t byte_count, Report* report);

}  // namespace xorbit::cuda::testing
