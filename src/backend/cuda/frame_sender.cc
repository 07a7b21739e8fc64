#include "backend/cuda/frame_sender.h"

#include <cstring>

#include "backend/cuda/cuda_status.h"
#include "backend/cuda/frame_kernels.h"

namespace xorbit::cuda {
namespace {

// An eighth more than was asked for, so that the next version fits too.
template <typename Memory>
Status GrowTo(uint64_t byte_count, Memory* memory, uint64_t has) {
  if (has >= byte_count && has > 0) return {};
  *memory = {};
  XORBIT_ASSIGN_OR_RETURN(*memory, Memory::Make(byte_count + byte_count / 8 + 256));
  return {};
}
Status Grow(uint64_t byte_count, DeviceBuffer* memory) { return GrowTo(byte_count, memory, memory->byte_count()); }
Status Grow(uint64_t byte_count, PinnedBuffer* memory) { return GrowTo(byte_count, memory, memory->bytes().size()); }

}  // namespace

class FrameSender::Stages final : public FrameStages {
 public:
  explicit Stages(FrameSender* sender) : sender_(*sender) {}

  Result<std::vector<FrameSurvey>> Survey(std::span<const SendFrame> frames) override {
    const uint64_t survey_bytes = frames.size() * sizeof(FrameSurvey);
    XORBIT_RETURN_IF_ERROR(Grow(frames.size_bytes(), &sender_.frames_dev_));
    XORBIT_RETURN_IF_ERROR(Grow(survey_bytes, &sender_.surveys_dev_));
    XORBIT_RETURN_IF_ERROR(Grow(std::max<uint64_t>(frames.size_bytes(), survey_bytes), &sender_.staging_));
    XORBIT_RETURN_IF_ERROR(Upload(frames));
    XORBIT_RETURN_IF_ERROR(LaunchFrameSurvey(sender_.sender_->on_device(), OnDevice(frames.size()), sender_.stream_));
    XORBIT_RETURN_IF_ERROR(Copy(sender_.staging_.bytes().data(), sender_.surveys_dev_.data_dev(), survey_bytes,
                                cudaMemcpyDeviceToHost, "surveys of frames"));
    XORBIT_RETURN_IF_ERROR(Wait());
    std::vector<FrameSurvey> surveys(frames.size());
    std::memcpy(surveys.data(), sender_.staging_.bytes().data(), survey_bytes);
    return surveys;
  }

  Status Write(std::span<const SendFrame> frames, uint64_t inner_bytes) override {
    XORBIT_RETURN_IF_ERROR(Grow(inner_bytes, &sender_.inner_dev_));
    XORBIT_RETURN_IF_ERROR(Grow(inner_bytes, &sender_.inner_));
    XORBIT_RETURN_IF_ERROR(Upload(frames));
    XORBIT_RETURN_IF_ERROR(LaunchFrameWrite(sender_.sender_->on_device(), OnDevice(frames.size()), sender_.stream_));
    XORBIT_RETURN_IF_ERROR(Copy(sender_.inner_.bytes().data(), sender_.inner_dev_.data_dev(), inner_bytes,
                                cudaMemcpyDeviceToHost, "inner frames"));
    return Wait();
  }

 private:
  FramesOnDevice OnDevice(uint64_t frame_count) const {
    return {sender_.form_, reinterpret_cast<const SendFrame*>(sender_.frames_dev_.data_dev()), frame_count,
            reinterpret_cast<FrameSurvey*>(sender_.surveys_dev_.data_dev()), sender_.inner_dev_.data_dev()};
  }
  Status Upload(std::span<const SendFrame> frames) const {
    std::memcpy(sender_.staging_.bytes().data(), frames.data(), frames.size_bytes());
    return Copy(sender_.frames_dev_.data_dev(), sender_.staging_.bytes().data(), frames.size_bytes(), cudaMemcpyHostToDevice,
                "frames");
  }
  Status Copy(void* to, const void* from, uint64_t byte_count, cudaMemcpyKind kind, const char* what) const {
    return CudaStatus(cudaMemcpyAsync(to, from, byte_count, kind, sender_.stream_), std::string("cudaMemcpyAsync of ") + what);
  }
  Status Wait() const {
    return CudaStatus(cudaStreamSynchronize(sender_.stream_),
                      "cudaStreamSynchronize (a kernel or copy before it may have failed)");
  }

  FrameSender& sender_;
};

Result<FrameSender::Encoded> FrameSender::Encode() {
  XORBIT_ASSIGN_OR_RETURN(const SendCounters counters, sender_->FindChanges());
  Encoded encoded;
  encoded.base = counters.base;
  if (counters.change_count == 0) return encoded;
  Stages stages(this);
  XORBIT_ASSIGN_OR_RETURN(encoded.sent, EncodeFrames(frames_, &stages));
  encoded.inner = inner_.bytes().first(encoded.sent.inner_bytes);
  return encoded;
}

}  // namespace xorbit::cuda
