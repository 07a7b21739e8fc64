// Apply by XOR where tiles may be dense: some by atomics, some by streaming, in one launch.
#include "backend/cuda/apply_kernel.cuh"

namespace xorbit::cuda {

Status LaunchStreamingXor(const UpdateOnDevice& update, ApplyKind kind, bool expect_after, const LaunchShape& shape,
                          cudaStream_t stream) {
  return kind == ApplyKind::kReturningXor
             ? LaunchOverTiles("apply by returning XOR and streaming", ApplyKernel<ApplyKind::kReturningXor, true>, update,
                               shape, stream, expect_after)
             : LaunchOverTiles("apply by XOR and streaming", ApplyKernel<ApplyKind::kXor, true>, update, shape, stream,
                               expect_after);
}

}  // namespace xorbit::cuda
