// Launches of the stages that encode a segment's mask in frames, in stream order on the caller's stream.
#pragma once

#include <cuda_runtime_api.h>

#include "backend/cuda/frame_tasks.h"
#include "base/status.h"

namespace xorbit::cuda {

// Changes lie in order: after LaunchGather. All that both point to is device memory.
Status LaunchFrameSurvey(const SendOnDevice& send, const FramesOnDevice& frames, cudaStream_t stream);
// frames.inner has room for what the surveys say.
Status LaunchFrameWrite(const SendOnDevice& send, const FramesOnDevice& frames, cudaStream_t stream);

}  // namespace xorbit::cuda
