// Apply by XOR: one launch for the whole model, and one more where dense tiles were laid out.
#include "backend/cuda/apply_kernel.cuh"

namespace xorbit::cuda {

Status LaunchXor(const UpdateOnDevice& update, ApplyKind kind, bool expect_after, const LaunchShape& shape,
                 cudaStream_t stream) {
  return kind == ApplyKind::kReturningXor
             ? LaunchOverTiles("apply by returning XOR", ApplyKernel<ApplyKind::kReturningXor>, kApplyBlocks, update, shape,
                               stream, expect_after)
             : LaunchOverTiles("apply by XOR", ApplyKernel<ApplyKind::kXor>, kApplyBlocks, update, shape, stream, expect_after);
}

Status LaunchApply(const UpdateOnDevice& update, ApplyKind kind, bool expect_after, const LaunchShape& shape,
                   cudaStream_t stream) {
  const bool is_xor = kind == ApplyKind::kReturningXor || kind == ApplyKind::kXor;
  const auto launch_rest = [&] {
    return is_xor ? LaunchXor(update, kind, expect_after, shape, stream)
                  : LaunchAbsolute(update, kind, expect_after, shape, stream);
  };
  if (update.bitmap_tile_count == 0) return launch_rest();
  XORBIT_RETURN_IF_ERROR(LaunchApplyBitmaps(update, kind, expect_after, shape, stream));
  if (update.bitmap_tile_count == update.tile_count) return {};
  const Status rest = launch_rest();
  if (!rest.ok() && is_xor) {
    XORBIT_RETURN_IF_ERROR(LaunchApplyBitmaps(update, ApplyKind::kXor, false, shape, stream)
                               .WithContext("apply failed in part, and so did taking it back: reload the weights"));
  }
  return rest;
}

}  // namespace xorbit::cuda
