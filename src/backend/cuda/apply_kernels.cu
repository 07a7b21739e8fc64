// The kernels of the pause: one launch for the whole model, whichever way it writes.
#include "backend/cuda/launch.cuh"

namespace xorbit::cuda {
namespace {

template <ApplyKind kKind>
__global__ void __launch_bounds__(kThreadsPerBlock, 3) ApplyKernel(const UpdateOnDevice update, bool expect_after) {
  ForEachTile(update, [&](const TileTask& task) {
    WithDeviceUnit(task.segment->unit_bytes, [&]<typename Unit>() { ApplyTile<Unit, kKind>(task, expect_after); });
  });
}

}  // namespace

Status LaunchApply(const UpdateOnDevice& update, ApplyKind kind, bool expect_after, const LaunchShape& shape,
                   cudaStream_t stream) {
  switch (kind) {
    case ApplyKind::kReturningXor:
      return LaunchOverTiles("apply by returning XOR", ApplyKernel<ApplyKind::kReturningXor>, update, shape, stream,
                             expect_after);
    case ApplyKind::kXor:
      return LaunchOverTiles("apply by XOR", ApplyKernel<ApplyKind::kXor>, update, shape, stream, expect_after);
    case ApplyKind::kStore:
      return LaunchOverTiles("apply by stores", ApplyKernel<ApplyKind::kStore>, update, shape, stream, expect_after);
    case ApplyKind::kRestore:
      return LaunchOverTiles("undo by stores", ApplyKernel<ApplyKind::kRestore>, update, shape, stream, expect_after);
    default:
      return LaunchOverTiles("comparison", ApplyKernel<ApplyKind::kCompare>, update, shape, stream, expect_after);
  }
}

}  // namespace xorbit::cuda
