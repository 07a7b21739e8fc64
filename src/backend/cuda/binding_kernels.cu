// The kernel of shadows and aliases: the tiles that touch some, one step at a time. One kernel for all steps, since it is off
// the path of nearly all tiles.
#include "backend/cuda/binding_tile.h"
#include "backend/cuda/launch.cuh"

namespace xorbit::cuda {
namespace {

struct BindingBody {
  BindingsOnDevice bindings;
  BindingStep step;

  template <typename Unit>
  __device__ __forceinline__ void Run(const TileTask& task) const {
    BindTile<Unit>(task, bindings, step);
  }
};

__global__ void __launch_bounds__(kThreadsPerBlock, kPreflightBlocks)
    BindingKernel(const __grid_constant__ UpdateOnDevice tiles, BindingsOnDevice bindings, BindingStep step) {
  ForEachTile(tiles, BindingBody{bindings, step});
}

}  // namespace

Status LaunchBindings(const UpdateOnDevice& tiles, const BindingsOnDevice& bindings, BindingStep step, const LaunchShape& shape,
                      cudaStream_t stream) {
  return LaunchOverTiles("shadows and aliases", BindingKernel, kPreflightBlocks, tiles, shape, stream, bindings, step);
}

}  // namespace xorbit::cuda
