// Dense tiles: laid out in pre-flight, and applied by that.
#include "backend/cuda/bitmap_tile.h"
#include "backend/cuda/launch.cuh"

namespace xorbit::cuda {
namespace {

// Blocks of a multiprocessor, and of a launch for each: the more of these there are, the less all of them wait at the end for
// those that were slower.
constexpr uint32_t kBitmapBlocks = 4;
constexpr uint32_t kLaunchedBlocks = 64;
constexpr uint32_t kWindowVectors = kWindowBytes / kVectorBytes;

struct LayOutBody {
  WordVector* window;

  template <typename Unit>
  __device__ __forceinline__ void Run(const TileTask& task) const {
    LayOutTile<Unit>(task, window);
  }
};

__global__ void __launch_bounds__(kThreadsPerBlock, kBitmapBlocks) LayOutKernel(const __grid_constant__ UpdateOnDevice update) {
  __shared__ WordVector windows[kWarpsPerBlock * kWindowVectors];
  for (uint32_t i = threadIdx.x; i < kWarpsPerBlock * kWindowVectors; i += kThreadsPerBlock) windows[i] = {};
  __syncthreads();
  ForEachTile(update, LayOutBody{windows + threadIdx.x / kWarpLanes * kWindowVectors});
}

struct SumBody {
  template <typename Unit>
  __device__ __forceinline__ void Run(const TileTask& task) const {
    SumBitmapTile<Unit>(task);
  }
};

__global__ void __launch_bounds__(kThreadsPerBlock, kBitmapBlocks) SumKernel(const __grid_constant__ UpdateOnDevice update) {
  ForEachTile(update, SumBody{});
}

template <ApplyKind kKind>
struct ApplyBitmapBody {
  bool expect_after;

  template <typename Unit>
  __device__ __forceinline__ void Run(const TileTask& task) const {
    ApplyBitmapTile<Unit, kKind>(task, expect_after);
  }
};

template <ApplyKind kKind>
__global__ void __launch_bounds__(kThreadsPerBlock, kBitmapBlocks)
    ApplyBitmapKernel(const __grid_constant__ UpdateOnDevice update, bool expect_after) {
  ForEachTile(update, ApplyBitmapBody<kKind>{expect_after});
}

// Forms are read without the segments' tables.
UpdateOnDevice WithoutTables(UpdateOnDevice update) {
  update.table_bytes = 0;
  return update;
}

template <ApplyKind kKind>
Status LaunchAs(const char* name, const UpdateOnDevice& update, bool expect_after, const LaunchShape& shape,
                cudaStream_t stream) {
  return LaunchOverTiles(name, ApplyBitmapKernel<kKind>, kLaunchedBlocks, WithoutTables(update), shape, stream, expect_after);
}

}  // namespace

Status LaunchBitmaps(const UpdateOnDevice& update, const LaunchShape& shape, cudaStream_t stream) {
  if (update.bitmap_tile_count == 0) return {};
  XORBIT_RETURN_IF_ERROR(
      LaunchOverTiles("the laying out of dense tiles", LayOutKernel, kLaunchedBlocks, update, shape, stream));
  return LaunchOverTiles("sums of dense tiles", SumKernel, kLaunchedBlocks, WithoutTables(update), shape, stream);
}

Status LaunchApplyBitmaps(const UpdateOnDevice& update, ApplyKind kind, bool expect_after, const LaunchShape& shape,
                          cudaStream_t stream) {
  switch (kind) {
    case ApplyKind::kXor:
      return LaunchAs<ApplyKind::kXor>("apply of dense tiles", update, expect_after, shape, stream);
    case ApplyKind::kCompare:
      return LaunchAs<ApplyKind::kCompare>("comparison of dense tiles", update, expect_after, shape, stream);
    default:
      return LaunchAs<ApplyKind::kReturningXor>("checked apply of dense tiles", update, expect_after, shape, stream);
  }
}

}  // namespace xorbit::cuda
