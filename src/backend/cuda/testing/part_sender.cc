#include "backend/cuda/testing/part_sender.h"

#include "backend/cuda/cuda_sender.h"
#include "backend/cuda/cuda_status.h"
#include "backend/cuda/device.h"
#include "backend/cuda/frame_sender.h"
#include "base/parallel.h"
#include "base/stopwatch.h"
#include "codec/change_digest.h"

namespace xorbit {
namespace {

using cuda::CudaStatus;

class DevicePartSender final : public PartSender {
 public:
  DevicePartSender(int device, CodecId codec) : device_(device), codec_(codec) {}

  Status Plan(const Layout& layout, const SegmentMap& map, ConstBytes old_state, ConstBytes new_state, uint64_t change_count) {
    XORBIT_ASSIGN_OR_RETURN(const cuda::CurrentDevice current, cuda::CurrentDevice::Set(device_));
    plan_ =
        cuda::PlanSend(map, TensorKeysOf(layout), SegmentBytes::InImage(map, old_state), SegmentBytes::InImage(map, new_state));
    if (!plan_.digest_blocks_aligned) return UnsupportedError("a part whose digest blocks are not aligned in memory");
    cuda::SenderOptions options;
    options.with_base = true;
    options.sizes.change_count = change_count;
    XORBIT_ASSIGN_OR_RETURN(stream_, cuda::MakeStream());
    XORBIT_ASSIGN_OR_RETURN(memory_, cuda::DeviceBuffer::Make(cuda::CudaSender::DeviceBytesFor(plan_, options)));
    XORBIT_ASSIGN_OR_RETURN(pinned_, cuda::PinnedBuffer::Make(cuda::CudaSender::kPinnedBytes));
    XORBIT_ASSIGN_OR_RETURN(cuda::CudaSender sender,
                            cuda::CudaSender::Make(plan_, options, memory_.data_dev(), pinned_.bytes(), stream_.get()));
    sender_.emplace(std::move(sender));
    if (codec_ == CodecId::kSparse) return {};
    const std::optional<cuda::FrameForm> form = cuda::FrameFormOf(codec_);
    if (!form) return UnsupportedError("weights in device memory are not encoded by the codec zstd");
    frames_.emplace(&*sender_, cuda::PlanSendFrames(map, EncodeOptions().frame_bytes), *form, stream_.get());
    return {};
  }

  Result<SentPart> Encode() override {
    XORBIT_ASSIGN_OR_RETURN(const cuda::CurrentDevice current, cuda::CurrentDevice::Set(device_));
    return frames_ ? EncodeInFrames() : EncodeTiles();
  }

  Status BringForward() override {
    XORBIT_ASSIGN_OR_RETURN(const cuda::CurrentDevice current, cuda::CurrentDevice::Set(device_));
    XORBIT_RETURN_IF_ERROR(sender_->BringForward());
    return CudaStatus(cudaStreamSynchronize(stream_.get()), "cudaStreamSynchronize after a baseline was brought forward");
  }

 private:
  Result<SentPart> EncodeTiles() {
    SentPart part;
    const Stopwatch encoding;
    XORBIT_ASSIGN_OR_RETURN(const cuda::SentSegment sent, sender_->Encode());
    part.encode_s = encoding.seconds();
    const uint64_t record_bytes = sent.record_count * sizeof(TileRecord);
    if (out_.bytes().size() < record_bytes + sent.body_bytes) {
      out_ = {};
      XORBIT_ASSIGN_OR_RETURN(out_, cuda::PinnedBuffer::Make((record_bytes + sent.body_bytes) / 8 * 9));
    }
    const Stopwatch copying;
    XORBIT_RETURN_IF_ERROR(sender_->CopyOut(sent, out_.bytes().data(), out_.bytes().data() + record_bytes));
    XORBIT_RETURN_IF_ERROR(CudaStatus(cudaStreamSynchronize(stream_.get()), "cudaStreamSynchronize after encoding"));
    part.owner.base = sent.base;
    part.owner.segments.push_back(cuda::ToEncodedSegment(sent, plan_.unit_bytes, out_.bytes().first(record_bytes),
                                                         out_.bytes().subspan(record_bytes, sent.body_bytes),
                                                         DefaultThreadCount()));
    part.copy_out_s = copying.seconds();
    return part;
  }
  Result<SentPart> EncodeInFrames() {
    SentPart part;
    const Stopwatch encoding;
    XORBIT_ASSIGN_OR_RETURN(const cuda::FrameSender::Encoded encoded, frames_->Encode());
    part.encode_s = encoding.seconds();
    const Stopwatch sealing;
    EncodeOptions options;
    options.threads = DefaultThreadCount();
    part.owner.base = encoded.base;
    XORBIT_ASSIGN_OR_RETURN(EncodedSegment segment, ToEncodedSegment(encoded.sent, codec_, encoded.inner, options));
    part.owner.segments.push_back(std::move(segment));
    part.copy_out_s = sealing.seconds();
    return part;
  }

  int device_;
  CodecId codec_;
  cuda::SendPlan plan_;
  cuda::Stream stream_;
  cuda::DeviceBuffer memory_;
  cuda::PinnedBuffer pinned_;
  cuda::PinnedBuffer out_;
  std::optional<cuda::CudaSender> sender_;
  std::optional<cuda::FrameSender> frames_;
};

}  // namespace

Result<std::unique_ptr<PartSender>> MakePartSender(int device, const Layout& layout, const SegmentMap& map,
                                                   ConstBytes old_state, ConstBytes new_state, uint64_t change_count,
                                                   CodecId codec) {
  auto sender = std::make_unique<DevicePartSender>(device, codec);
  XORBIT_RETURN_IF_ERROR(sender->Plan(layout, map, old_state, new_state, change_count));
  return std::unique_ptr<PartSender>(std::move(sender));
}

}  // namespace xorbit
