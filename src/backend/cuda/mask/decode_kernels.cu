// One warp a block: frames differ in length, and a block of several would wait for its longest.
#include "backend/cuda/cuda_status.h"
#include "backend/cuda/mask/frame_decode.h"
#include "backend/cuda/mask/mask_kernels.h"

namespace xorbit::cuda {
namespace {

template <InnerKind kKind>
__global__ void __launch_bounds__(kWarpLanes) FrameDecodeKernel(const FrameOnDevice* frames, uint64_t count, uint8_t* slot,
                                                                uint32_t* groups, uint32_t* decoded_bytes, FrameState* states) {
  __shared__ WordVector ring[kRingBytes / kVectorBytes];
  for (uint64_t i = blockIdx.x; i < count; i += gridDim.x) {
    const FrameOnDevice& frame = frames[i];
    const FrameError error = DecodeFrame<kKind>(frame.inner, frame.inner_bytes, slot + frame.slot_offset, frame.mask_bytes,
                                                groups + frame.slot_offset / kGroupWordBytes, ring);
    if (Lane() != 0) continue;
    states[i].decoding_error = static_cast<uint32_t>(error);
    decoded_bytes[i] = error == FrameError::kNone ? frame.mask_bytes : kNotDecoded;
  }
}

}  // namespace

Status LaunchFrameDecode(const DecodeJob& job) {
  const uint64_t count = job.frames.size();
  if (count == 0) return {};
  if (job.kind == InnerKind::kZstd) return UnsupportedError("our kernels do not read Zstd frames: use the CPU decoder");
  if (job.fills_masks) {
    const uint64_t begin = job.frames.front().slot_offset;
    const uint64_t end = job.frames.back().slot_offset + job.frames.back().mask_bytes;
    XORBIT_RETURN_IF_ERROR(
        CudaStatus(cudaMemsetAsync(job.slot_dev + begin, 0, end - begin, job.stream), "cudaMemsetAsync of masks"));
  }
  auto* const kernel =
      job.kind == InnerKind::kSnappy ? FrameDecodeKernel<InnerKind::kSnappy> : FrameDecodeKernel<InnerKind::kLz4>;
  const uint64_t most_blocks = job.most_blocks > 0 ? job.most_blocks : uint64_t{1} << 16;
  kernel<<<static_cast<uint32_t>(count < most_blocks ? count : most_blocks), kWarpLanes, 0, job.stream>>>(
      job.frames_dev, count, job.slot_dev, job.groups_dev, job.decoded_bytes_dev, job.states_dev);
  return CudaStatus(cudaGetLastError(), "launch of the frame decoder");
}

}  // namespace xorbit::cuda
