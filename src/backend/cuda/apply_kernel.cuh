// The kernel of the pause, for one way to write, and who launches which: one file a group, since each takes long to compile.
#pragma once

#include "backend/cuda/launch.cuh"

namespace xorbit::cuda {

// Windows of a block's warps (StreamVisitor), all zero.
__device__ __forceinline__ WordVector* ClearedWindow(WordVector* windows) {
  constexpr uint32_t kVectors = kWindowBytes / kVectorBytes;
  for (uint32_t i = threadIdx.x; i < kWarpsPerBlock * kVectors; i += kThreadsPerBlock) windows[i] = {};
  __syncthreads();
  return windows + threadIdx.x / kWarpLanes * kVectors;
}

template <ApplyKind kKind, bool kMayStream>
struct ApplyBody {
  bool expect_after;
  WordVector* window;

  template <typename Unit>
  __device__ __forceinline__ void Run(const TileTask& task) const {
    ApplyTile<Unit, kKind, kMayStream>(task, expect_after, window);
  }
};

template <ApplyKind kKind, bool kMayStream>
__global__ void __launch_bounds__(kThreadsPerBlock, kApplyBlocks)
    ApplyKernel(const __grid_constant__ UpdateOnDevice update, bool expect_after) {
  __shared__ WordVector windows[kMayStream ? kWarpsPerBlock * kWindowBytes / kVectorBytes : 1];
  WordVector* window = nullptr;
  if constexpr (kMayStream) window = ClearedWindow(windows);
  ForEachTile(update, ApplyBody<kKind, kMayStream>{expect_after, window});
}

// kReturningXor or kXor where no tile is to be streamed; the former where some are; kStore, kRestore or kCompare.
Status LaunchXor(const UpdateOnDevice& update, ApplyKind kind, bool expect_after, const LaunchShape& shape,
                 cudaStream_t stream);
Status LaunchStreamingXor(const UpdateOnDevice& update, bool expect_after, const LaunchShape& shape, cudaStream_t stream);
Status LaunchAbsolute(const UpdateOnDevice& update, ApplyKind kind, bool expect_after, const LaunchShape& shape,
                      cudaStream_t stream);

}  // namespace xorbit::cuda
