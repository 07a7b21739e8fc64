// Absolute stores from an undo log, and the comparison that follows what returns nothing.
#include "backend/cuda/apply_kernel.cuh"

namespace xorbit::cuda {

Status LaunchAbsolute(const UpdateOnDevice& update, ApplyKind kind, bool expect_after, const LaunchShape& shape,
                      cudaStream_t stream) {
  switch (kind) {
    case ApplyKind::kStore:
      return LaunchOverTiles("apply by stores", ApplyKernel<ApplyKind::kStore>, kApplyBlocks, update, shape, stream,
                             expect_after);
    case ApplyKind::kRestore:
      return LaunchOverTiles("undo by stores", ApplyKernel<ApplyKind::kRestore>, kApplyBlocks, update, shape, stream,
                             expect_after);
    default:
      return LaunchOverTiles("comparison", ApplyKernel<ApplyKind::kCompare>, kApplyBlocks, update, shape, stream, expect_after);
  }
}

}  // namespace xorbit::cuda
