#include "backend/cuda/device_encode.h"

#include <algorithm>
#include <string>

#include "backend/cuda/cuda_memory.h"
#include "backend/cuda/cuda_sender.h"
#include "backend/cuda/cuda_status.h"
#include "backend/cuda/device.h"
#include "backend/cuda/frame_sender.h"
#include "backend/cuda/scan_kernels.h"
#include "codec/change_digest.h"
#include "codec/mask_encoder.h"

namespace xorbit::cuda {
namespace {

Result<cudaPointerAttributes> AttributesOf(const uint8_t* memory) {
  cudaPointerAttributes attributes{};
  XORBIT_RETURN_IF_ERROR(CudaStatus(cudaPointerGetAttributes(&attributes, memory), "cudaPointerGetAttributes"));
  return attributes;
}

bool IsOnDevice(const cudaPointerAttributes& attributes) {
  return attributes.type == cudaMemoryTypeDevice || attributes.type == cudaMemoryTypeManaged;
}

Result<bool> IsOnHost(const SegmentMap& map, const SegmentBytes& bytes) {
  if (map.element_count() == 0) return false;
  XORBIT_ASSIGN_OR_RETURN(const cudaPointerAttributes at, AttributesOf(bytes.Of(RunAt(map, 0)).data()));
  return !IsOnDevice(at);
}

// D over the old bytes of a plan's spans.
Result<StateDigest> ScanOldBytes(const SegmentMap& map, std::span<const uint64_t> tensor_keys, const SegmentBytes& old_bytes,
                                 cudaStream_t stream) {
  std::vector<ScanRange> ranges;
  RunWalker runs(map, 0, map.element_count());
  for (Run run; runs.Next(&run);) {
    const ConstBytes bytes = old_bytes.Of(run);
    ranges.push_back({reinterpret_cast<uint64_t>(bytes.data()), bytes.size(), run.tensor_element * map.unit_bytes(),
                      tensor_keys[run.tensor_index]});
  }
  const std::vector<ScanRange> pieces = CutScanRanges(ranges);
  const uint64_t piece_bytes = pieces.size() * sizeof(ScanRange);
  XORBIT_ASSIGN_OR_RETURN(const DeviceBuffer pieces_dev, DeviceBuffer::Make(piece_bytes));
  XORBIT_ASSIGN_OR_RETURN(const DeviceBuffer digest_dev, DeviceBuffer::Make(sizeof(StateDigest)));
  XORBIT_RETURN_IF_ERROR(
      CudaStatus(cudaMemcpyAsync(pieces_dev.data_dev(), pieces.data(), piece_bytes, cudaMemcpyHostToDevice, stream),
                 "cudaMemcpyAsync of a scan's plan to the device"));
  XORBIT_RETURN_IF_ERROR(CudaStatus(cudaMemsetAsync(digest_dev.data_dev(), 0, sizeof(StateDigest), stream), "cudaMemsetAsync"));
  XORBIT_RETURN_IF_ERROR(LaunchScan(reinterpret_cast<const ScanRange*>(pieces_dev.data_dev()), pieces.size(), 2, {},
                                    reinterpret_cast<StateDigest*>(digest_dev.data_dev()), stream));
  StateDigest digest;
  XORBIT_RETURN_IF_ERROR(
      CudaStatus(cudaMemcpyAsync(&digest, digest_dev.data_dev(), sizeof digest, cudaMemcpyDeviceToHost, stream),
                 "cudaMemcpyAsync of a digest from the device"));
  XORBIT_RETURN_IF_ERROR(CudaStatus(cudaStreamSynchronize(stream), "cudaStreamSynchronize after a scan"));
  return digest;
}

// A segment, and D over its old bytes if the diff was to sum it.
struct SegmentWithBase {
  EncodedSegment segment;
  StateDigest base;
};

// What is asked for beside the plan.
struct SegmentWork {
  const SegmentMap* map;
  CodecId codec;
  const EncodeOptions* options;
  bool old_on_host;
  bool sums_base;
  cudaStream_t stream;
};

Result<SegmentWithBase> EncodeInFrames(const SegmentWork& work, CudaSender* sender) {
  FrameSender frames(sender, PlanSendFrames(*work.map, work.options->frame_bytes), *FrameFormOf(work.codec), work.stream);
  XORBIT_ASSIGN_OR_RETURN(const FrameSender::Encoded encoded, frames.Encode());
  XORBIT_ASSIGN_OR_RETURN(EncodedSegment segment, ToEncodedSegment(encoded.sent, work.codec, encoded.inner, *work.options));
  return SegmentWithBase{std::move(segment), encoded.base};
}

Result<SegmentWithBase> EncodeWithRoom(const SendPlan& plan, const SendSizes& sizes, const SegmentWork& work) {
  SenderOptions options;
  options.sizes = sizes;
  options.with_base = work.sums_base;
  XORBIT_ASSIGN_OR_RETURN(const DeviceBuffer memory, DeviceBuffer::Make(CudaSender::DeviceBytesFor(plan, options)));
  XORBIT_ASSIGN_OR_RETURN(const PinnedBuffer pinned, PinnedBuffer::Make(CudaSender::kPinnedBytes));
  XORBIT_ASSIGN_OR_RETURN(CudaSender sender, CudaSender::Make(plan, options, memory.data_dev(), pinned.bytes(), work.stream));
  if (work.codec != CodecId::kSparse) return EncodeInFrames(work, &sender);
  XORBIT_ASSIGN_OR_RETURN(const SentSegment sent, sender.Encode());
  const uint64_t record_bytes = sent.record_count * sizeof(TileRecord);
  XORBIT_ASSIGN_OR_RETURN(const PinnedBuffer out, PinnedBuffer::Make(record_bytes + sent.body_bytes));
  XORBIT_RETURN_IF_ERROR(sender.CopyOut(sent, out.bytes().data(), out.bytes().data() + record_bytes));
  XORBIT_RETURN_IF_ERROR(CudaStatus(cudaStreamSynchronize(work.stream), "cudaStreamSynchronize after encoding"));
  return SegmentWithBase{ToEncodedSegment(sent, plan.unit_bytes, out.bytes().first(record_bytes),
                                          out.bytes().subspan(record_bytes), work.options->threads),
                         sent.base};
}

// Two of them take milliseconds to fill, and a thousandth of a device.
constexpr uint64_t kSlotBytes = uint64_t{64} << 20;

// Most updates change little, so room for all of a segment, and then for tiles of single changes, is the last thing to ask for.
Result<SegmentWithBase> EncodePlan(const SendPlan& plan, const SegmentWork& work) {
  SendSizes sizes;
  sizes.change_count = std::max<uint64_t>(plan.element_count / 64, 65536);
  if (work.old_on_host) sizes.slot_bytes = kSlotBytes;
  for (;;) {
    Result<SegmentWithBase> encoded = EncodeWithRoom(plan, sizes, work);
    if (encoded.ok() || encoded.status().code() != Code::kUsage || sizes.halved_count >= plan.element_count) return encoded;
    (sizes.change_count < plan.element_count ? sizes.change_count : sizes.halved_count) *= 16;
  }
}

}  // namespace

Result<std::optional<int>> DeviceOfStates(std::span<const SegmentMap> maps, std::span<const SegmentBytes> old_bytes,
                                          std::span<const SegmentBytes> new_bytes) {
  std::optional<int> device;
  for (size_t i = 0; i < maps.size(); ++i) {
    if (maps[i].element_count() == 0) continue;
    const Run first = RunAt(maps[i], 0);
    XORBIT_ASSIGN_OR_RETURN(const cudaPointerAttributes new_at, AttributesOf(new_bytes[i].Of(first).data()));
    XORBIT_ASSIGN_OR_RETURN(const cudaPointerAttributes old_at, AttributesOf(old_bytes[i].Of(first).data()));
    const std::optional<int> here = IsOnDevice(new_at) ? std::optional<int>(new_at.device) : std::nullopt;
    if (i > 0 && here != device) {
      return UsageError("an owner's new weights lie partly on one device and partly elsewhere: encode each device's by itself");
    }
    device = here;
    const bool same = IsOnDevice(old_at) ? here == old_at.device : !here || old_at.type == cudaMemoryTypeHost;
    if (!same) return UsageError("old weights must lie on the new ones' device or in page-locked host memory");
  }
  return device;
}

Result<EncodedOwner> EncodeDiffOnDevice(const Layout& layout, std::span<const SegmentMap> maps, const OldState& old_state,
                                        std::span<const SegmentBytes> new_bytes, int device, CodecId codec,
                                        const EncodeOptions& options) {
  if (codec != CodecId::kSparse) {
    if (!FrameFormOf(codec)) return UnsupportedError("weights in device memory are not encoded by the codec zstd: use another");
    for (const SegmentMap& map : maps) XORBIT_RETURN_IF_ERROR(CheckFrameBytes(options, map.unit_bytes()));
  }
  XORBIT_ASSIGN_OR_RETURN(const CurrentDevice current, CurrentDevice::Set(device));
  XORBIT_ASSIGN_OR_RETURN(const Stream stream, MakeStream());
  const std::vector<uint64_t> tensor_keys = TensorKeysOf(layout);
  EncodedOwner owner;
  owner.base = old_state.digest.value_or(StateDigest());
  for (size_t i = 0; i < maps.size(); ++i) {
    const SendPlan plan = PlanSend(maps[i], tensor_keys, old_state.bytes[i], new_bytes[i]);
    XORBIT_ASSIGN_OR_RETURN(const bool old_on_host, IsOnHost(maps[i], old_state.bytes[i]));
    const bool sums_base = !old_state.digest && plan.digest_blocks_aligned;
    XORBIT_ASSIGN_OR_RETURN(SegmentWithBase encoded,
                            EncodePlan(plan, {&maps[i], codec, &options, old_on_host, sums_base, stream.get()}));
    if (!old_state.digest && !sums_base) {
      XORBIT_ASSIGN_OR_RETURN(encoded.base, ScanOldBytes(maps[i], tensor_keys, old_state.bytes[i], stream.get()));
    }
    if (!old_state.digest) owner.base += encoded.base;
    owner.segments.push_back(std::move(encoded.segment));
  }
  return owner;
}

}  // namespace xorbit::cuda
