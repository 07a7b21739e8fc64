// The kernel of the pause, for one way to write, and who launches which: one file a group, since each takes long to compile.
#pragma once

#include "backend/cuda/launch.cuh"

namespace xorbit::cuda {

template <ApplyKind kKind>
struct ApplyBody {
  bool expect_after;

  template <typename Unit>
  __device__ __forceinline__ void Run(const TileTask& task) const {
    ApplyTile<Unit, kKind>(task, expect_after);
  }
};

template <ApplyKind kKind>
__global__ void __launch_bounds__(kThreadsPerBlock, kApplyBlocks)
    ApplyKernel(const __grid_constant__ UpdateOnDevice update, bool expect_after) {
  ForEachTile(update, ApplyBody<kKind>{expect_after});
}

// kReturningXor or kXor; kStore, kRestore or kCompare: of tiles that were not laid out.
Status LaunchXor(const UpdateOnDevice& update, ApplyKind kind, bool expect_after, const LaunchShape& shape,
                 cudaStream_t stream);
Status LaunchAbsolute(const UpdateOnDevice& update, ApplyKind kind, bool expect_after, const LaunchShape& shape,
                      cudaStream_t stream);
// kReturningXor, kXor or kCompare, of those that were.
Status LaunchApplyBitmaps(const UpdateOnDevice& update, ApplyKind kind, bool expect_after, const LaunchShape& shape,
                          cudaStream_t stream);

}  // namespace xorbit::cuda
