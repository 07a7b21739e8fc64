// The CUDA backend through its interface against the CPU's: reports, sums for a cohort, apply, undo, refusal, scan of live
// memory.
#pragma once

#include "parity_case.h"

namespace xorbit::gpu_check {

// `what` begins the message of a difference.
void CompareReports(const PrepareReport& got, const PrepareReport& want, const std::string& what,
                    cuda::testing::Report* report);

// One update with these options: there, back, and over another state.
void CheckPrepared(const Backend& cuda_backend, const Backend& cpu_backend, const Case& c, const PrepareOptions& options,
                   cuda::testing::Report* report);

// The same update a portion at a time, there and back.
void CheckByPortions(const Backend& cuda_backend, const Case& c, const PrepareOptions& options, cuda::testing::Report* report);

void CheckBackend(const Backend& cuda_backend, const Backend& cpu_backend, const Case& c, cuda::testing::Report* report);

}  // namespace xorbit::gpu_check
