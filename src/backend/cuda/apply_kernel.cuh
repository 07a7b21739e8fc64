// The kernel of the pause, for one way to write, and who launches which: one file a group, since each takes long to compile.
#pragma once

#include "backend/cuda/launch.cuh"

namespace xorbit::cuda {

// kMayStream: with a window for each warp, which leaves room for fewer blocks.
template <ApplyKind kKind, bool kMayStream>
__global__ void __launch_bounds__(kThreadsPerBlock, kMayStream ? 2 : 3)
    ApplyKernel(const __grid_constant__ UpdateOnDevice update, bool expect_after) {
  __shared__ WordVector windows[kMayStream ? kWarpsPerBlock * kWindowBytes / kVectorBytes : 1];
  uint32_t* window = nullptr;
  if constexpr (kMayStream) {
    for (uint32_t i = threadIdx.x; i < kWarpsPerBlock * kWindowBytes / kVectorBytes; i += kThreadsPerBlock) windows[i] = {};
    __syncthreads();
    window = reinterpret_cast<uint32_t*>(windows) + threadIdx.x / kWarpLanes * kWindowWords;
  }
  ForEachTile(update, [&](const TileTask& task) {
    WithDeviceUnit(task.segment->unit_bytes,
                   [&]<typename Unit>() { ApplyTile<Unit, kKind, kMayStream>(task, expect_after, window); });
  });
}

// kReturningXor or kXor where no tile is to be streamed, and where some may be; kStore, kRestore or kCompare.
Status LaunchXor(const UpdateOnDevice& update, ApplyKind kind, bool expect_after, const LaunchShape& shape,
                 cudaStream_t stream);
Status LaunchStreamingXor(const UpdateOnDevice& update, ApplyKind kind, bool expect_after, const LaunchShape& shape,
                          cudaStream_t stream);
Status LaunchAbsolute(const UpdateOnDevice& update, ApplyKind kind, bool expect_after, const LaunchShape& shape,
                      cudaStream_t stream);

}  // namespace xorbit::cuda
