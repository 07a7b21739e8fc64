// The same contract in builds without nvcc: one error that says so, so that callers need no switch.
#include "backend/cuda/cuda_backend.h"
#include "backend/cuda/testing/gpu_bench.h"

namespace xorbit {

Result<GpuBenchReport> RunGpuBench(const GpuBenchOptions& /*options*/) { return MakeCudaBackend().status(); }

}  // namespace xorbit
