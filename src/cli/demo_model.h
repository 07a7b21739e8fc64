// A small language model under training, for the demo and for benchmarks: real rounding flips without real data.
//
// BF16 checkpoints are the roundings of FP32 master weights that simulated Adam moves (Kingma and Ba, 2015; learning rate as in
// RL post-training). Gradients are noise plus a steady part per weight; moments start as they would be in the middle of a run.
// Which weights flip, and how far, then follows from their size against the step, as in a real run: small weights flip often,
// norm weights of 1.0 never.
#pragma once

#include <cstdint>
#include <filesystem>
#include <vector>

#include "base/file.h"
#include "base/progress.h"

namespace xorbit {

struct DemoModelOptions {
  uint64_t total_bytes = 200'000'000;  // approximate; the number of layers follows from it
  uint32_t step_count = 5;
  double learning_rate = 3e-6;
  uint64_t seed = 1;
  int threads = 1;
};

// Writes `root`/step_000000 (before the first step) to step_NNNNNN, each a folder with model.safetensors and config.json, and
// returns their paths. `root` must exist. Deterministic in the options. Memory: one tensor's state per thread.
Result<std::vector<fs::path>> WriteDemoRun(FileOps& ops, const fs::path& root, const DemoModelOptions& options,
                                           Progress* progress);

}  // namespace xorbit
