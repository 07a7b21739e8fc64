// The mask codecs' sender on a GPU: what CudaSender finds, coded in frames, into the bytes that the CPU backend would write.
#pragma once

#include "backend/cuda/cuda_sender.h"
#include "backend/cuda/frame_segment.h"

namespace xorbit::cuda {

// Encodes one segment after another version of it. One thread. Keeps device and page-locked memory from call to call, and asks
// for more when frames take more than ever before.
class FrameSender {
 public:
  // `frames` is PlanSendFrames of the segment's map, `sender` made for it; it outlives this object.
  FrameSender(CudaSender* sender, std::vector<SendFrame> frames, FrameForm form, cudaStream_t stream)
      : sender_(sender), frames_(std::move(frames)), form_(form), stream_(stream) {}

  struct Encoded {
    SentFrames sent;
    ConstBytes inner;  // in page-locked memory, until the next call
    StateDigest base;  // of the old bytes, if the sender sums it
  };
  // Waits for the stream. kUsage as by CudaSender::Encode.
  Result<Encoded> Encode();

 private:
  class Stages;

  CudaSender* sender_;
  std::vector<SendFrame> frames_;
  FrameForm form_;
  cudaStream_t stream_;
  DeviceBuffer frames_dev_;
  DeviceBuffer surveys_dev_;
  DeviceBuffer inner_dev_;
  PinnedBuffer staging_;  // of frames and surveys
  PinnedBuffer inner_;
};

}  // namespace xorbit::cuda
