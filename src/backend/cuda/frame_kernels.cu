// From ordered changes to inner frames.
#include "backend/cuda/frame_kernels.h"

#include "backend/cuda/send_launch.cuh"

namespace xorbit::cuda {
namespace {

constexpr uint32_t kBlocksEach = 4;

template <typename Unit>
__global__ void __launch_bounds__(kSendThreads, kBlocksEach) FrameSurveyKernel(SendOnDevice send, FramesOnDevice frames) {
  __shared__ uint64_t word_factors[kWordFactorCount];
  if (threadIdx.x < kWordFactorCount) word_factors[threadIdx.x] = WordFactorAt(threadIdx.x);
  __syncthreads();
  for (uint64_t i = FirstItem(); i < frames.frame_count; i += ItemStride()) SurveyFrame<Unit>(send, frames, i, word_factors);
}

template <typename Unit>
__global__ void __launch_bounds__(kSendThreads, kBlocksEach) FrameWriteKernel(SendOnDevice send, FramesOnDevice frames) {
  for (uint64_t i = FirstItem(); i < frames.frame_count; i += ItemStride()) WriteFrame<Unit>(send, frames, i);
}

}  // namespace

Status LaunchFrameSurvey(const SendOnDevice& send, const FramesOnDevice& frames, cudaStream_t stream) {
  return WithUnit(send.unit_bytes, [&]<typename Unit>() {
    return LaunchSend("the survey of frames", &FrameSurveyKernel<Unit>, frames.frame_count, kBlocksEach, 0, stream, send,
                      frames);
  });
}

Status LaunchFrameWrite(const SendOnDevice& send, const FramesOnDevice& frames, cudaStream_t stream) {
  return WithUnit(send.unit_bytes, [&]<typename Unit>() {
    return LaunchSend("the writing of frames", &FrameWriteKernel<Unit>, frames.frame_count, kBlocksEach, 0, stream, send,
                      frames);
  });
}

}  // namespace xorbit::cuda
