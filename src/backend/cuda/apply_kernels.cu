// The kernels of the pause: one launch for the whole model, whichever way it writes.
#include "backend/cuda/launch.cuh"

namespace xorbit::cuda {
namespace {

// kMayStream: with a window for each warp, which leaves room for fewer blocks.
template <ApplyKind kKind, bool kMayStream>
__global__ void __launch_bounds__(kThreadsPerBlock, kMayStream ? 2 : 3)
    ApplyKernel(const UpdateOnDevice update, bool expect_after) {
  __shared__ WordVector windows[kMayStream ? kWarpsPerBlock * kWindowBytes / kVectorBytes : 1];
  uint32_t* window = nullptr;
  if constexpr (kMayStream) {
    for (uint32_t i = threadIdx.x; i < kWarpsPerBlock * kWindowBytes / kVectorBytes; i += kThreadsPerBlock) windows[i] = {};
    __syncthreads();
    window = reinterpret_cast<uint32_t*>(windows) + threadIdx.x / kWarpLanes * kWindowWords;
  }
  ForEachTile(update, [&](const TileTask& task) {
    WithDeviceUnit(task.segment->unit_bytes, [&]<typename Unit>() { ApplyTile<Unit, kKind>(task, expect_after, window); });
  });
}

template <ApplyKind kKind>
Status LaunchXor(const char* name, const UpdateOnDevice& update, bool expect_after, const LaunchShape& shape,
                 cudaStream_t stream) {
  return update.stream_bytes_per_change > 0
             ? LaunchOverTiles(name, ApplyKernel<kKind, true>, update, shape, stream, expect_after)
             : LaunchOverTiles(name, ApplyKernel<kKind, false>, update, shape, stream, expect_after);
}

}  // namespace

Status LaunchApply(const UpdateOnDevice& update, ApplyKind kind, bool expect_after, const LaunchShape& shape,
                   cudaStream_t stream) {
  switch (kind) {
    case ApplyKind::kReturningXor:
      return LaunchXor<ApplyKind::kReturningXor>("apply by returning XOR", update, expect_after, shape, stream);
    case ApplyKind::kXor:
      return LaunchXor<ApplyKind::kXor>("apply by XOR", update, expect_after, shape, stream);
    case ApplyKind::kStore:
      return LaunchOverTiles("apply by stores", ApplyKernel<ApplyKind::kStore, false>, update, shape, stream, expect_after);
    case ApplyKind::kRestore:
      return LaunchOverTiles("undo by stores", ApplyKernel<ApplyKind::kRestore, false>, update, shape, stream, expect_after);
    default:
      return LaunchOverTiles("comparison", ApplyKernel<ApplyKind::kCompare, false>, update, shape, stream, expect_after);
  }
}

}  // namespace xorbit::cuda
