// Apply by XOR where tiles may be dense: some by atomics, some by streaming, in one launch; and what it must find in the
// latter.
#include "backend/cuda/apply_kernel.cuh"

namespace xorbit::cuda {
namespace {

struct StreamSumsBody {
  WordVector* window;

  template <typename Unit>
  __device__ __forceinline__ void Run(const TileTask& task) const {
    SumStreamedTile<Unit>(task, window);
  }
};

__global__ void __launch_bounds__(kThreadsPerBlock, kApplyBlocks)
    StreamSumsKernel(const __grid_constant__ UpdateOnDevice update) {
  __shared__ WordVector windows[kWarpsPerBlock * kWindowBytes / kVectorBytes];
  ForEachTile(update, StreamSumsBody{ClearedWindow(windows)});
}

}  // namespace

Status LaunchStreamingXor(const UpdateOnDevice& update, bool expect_after, const LaunchShape& shape, cudaStream_t stream) {
  return LaunchOverTiles("apply by returning XOR and streaming", ApplyKernel<ApplyKind::kReturningXor, true>, kApplyBlocks,
                         update, shape, stream, expect_after);
}

Status LaunchStreamSums(const UpdateOnDevice& update, const LaunchShape& shape, cudaStream_t stream) {
  if (update.stream_bytes_per_change == 0) return {};
  return LaunchOverTiles("sums of streamed tiles", StreamSumsKernel, kApplyBlocks, update, shape, stream);
}

}  // namespace xorbit::cuda
