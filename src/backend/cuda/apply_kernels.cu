// Apply by XOR: one launch for the whole model.
#include "backend/cuda/apply_kernel.cuh"

namespace xorbit::cuda {

Status LaunchXor(const UpdateOnDevice& update, ApplyKind kind, bool expect_after, const LaunchShape& shape,
                 cudaStream_t stream) {
  return kind == ApplyKind::kReturningXor
             ? LaunchOverTiles("apply by returning XOR", ApplyKernel<ApplyKind::kReturningXor, false>, kApplyBlocks, update,
                               shape, stream, expect_after)
             : LaunchOverTiles("apply by XOR", ApplyKernel<ApplyKind::kXor, false>, kApplyBlocks, update, shape, stream,
                               expect_after);
}

Status LaunchApply(const UpdateOnDevice& update, ApplyKind kind, bool expect_after, const LaunchShape& shape,
                   cudaStream_t stream) {
  if (kind == ApplyKind::kReturningXor && update.stream_bytes_per_change > 0) {
    return LaunchStreamingXor(update, expect_after, shape, stream);
  }
  const bool is_xor = kind == ApplyKind::kReturningXor || kind == ApplyKind::kXor;
  return is_xor ? LaunchXor(update, kind, expect_after, shape, stream)
                : LaunchAbsolute(update, kind, expect_after, shape, stream);
}

}  // namespace xorbit::cuda
