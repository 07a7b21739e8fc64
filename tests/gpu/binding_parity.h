// The CUDA backend against the CPU's where live memory has shadows, kept copies and aliases: reports, bytes, verdicts, scans.
#pragma once

#include "backend/backend.h"
#include "backend/cuda/testing/timing.h"

namespace xorbit::gpu_check {

// Undo logs are for the sparse codec only.
void CheckBindings(const Backend& cuda_backend, const Backend& cpu_backend, uint64_t seed, cuda::testing::Report* report,
                   CodecId codec = CodecId::kSparse);

}  // namespace xorbit::gpu_check
