// The kernel of pre-flight: runs while the sampler does, and lets nothing pass that apply could not take.
#include "backend/cuda/launch.cuh"

namespace xorbit::cuda {
namespace {

template <bool kKeepLog>
struct PreflightBody {
  template <typename Unit>
  __device__ __forceinline__ void Run(const TileTask& task) const {
    PreflightTile<Unit, kKeepLog>(task);
  }
};

template <bool kKeepLog>
__global__ void __launch_bounds__(kThreadsPerBlock, kPreflightBlocks)
    PreflightKernel(const __grid_constant__ UpdateOnDevice update) {
  ForEachTile(update, PreflightBody<kKeepLog>{});
}

}  // namespace

Status LaunchPreflight(const UpdateOnDevice& update, bool keep_log, const LaunchShape& shape, cudaStream_t stream) {
  return keep_log ? LaunchOverTiles("pre-flight with undo log", PreflightKernel<true>, kPreflightBlocks, update, shape, stream)
                  : LaunchOverTiles("pre-flight", PreflightKernel<false>, kPreflightBlocks, update, shape, stream);
}

}  // namespace xorbit::cuda
