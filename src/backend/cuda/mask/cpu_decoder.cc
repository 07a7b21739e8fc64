#include "backend/cuda/mask/cpu_decoder.h"

#include <algorithm>

#include "backend/cuda/cuda_status.h"
#include "base/parallel.h"
#include "codec/mask_format.h"
#include "codec/mask_inner.h"

namespace xorbit::cuda {
namespace {

constexpr uint64_t kBounceBytes = uint64_t{64} << 20;
constexpr uint64_t kBounceFrames = 1 << 16;
static_assert(kBounceBytes >= kMaxFrameBytes);

const InnerCodec& CodecOf(InnerKind kind) {
  if (kind == InnerKind::kSnappy) return SnappyInner();
  return kind == InnerKind::kLz4 ? Lz4Inner() : ZstdInner();
}

}  // namespace

Result<std::unique_ptr<CpuDecoder>> CpuDecoder::Make(int threads) {
  auto decoder = std::unique_ptr<CpuDecoder>(new CpuDecoder(threads));
  for (Bounce& bounce : decoder->bounces_) {
    XORBIT_ASSIGN_OR_RETURN(bounce.masks, PinnedBuffer::Make(kBounceBytes));
    XORBIT_ASSIGN_OR_RETURN(bounce.lengths, PinnedBuffer::Make(kBounceFrames * sizeof(uint32_t)));
    XORBIT_ASSIGN_OR_RETURN(bounce.copied, MakeSleepingEvent());
  }
  return decoder;
}

Status CpuDecoder::Submit(const DecodeJob& job) {
  for (uint64_t begin = 0; begin < job.frames.size();) {
    const uint64_t from = job.frames[begin].slot_offset;
    uint64_t end = begin + 1;
    while (end < job.frames.size() && end - begin < kBounceFrames &&
           job.frames[end].slot_offset + job.frames[end].mask_bytes - from <= kBounceBytes) {
      ++end;
    }
    XORBIT_RETURN_IF_ERROR(Copy(job, begin, end, &bounces_[next_++ % bounces_.size()]));
    begin = end;
  }
  return {};
}

Status CpuDecoder::Copy(const DecodeJob& job, uint64_t begin, uint64_t end, Bounce* bounce) const {
  XORBIT_RETURN_IF_ERROR(CudaStatus(cudaEventSynchronize(bounce->copied.get()), "cudaEventSynchronize of a copy of masks"));
  const uint64_t from = job.frames[begin].slot_offset;
  auto* lengths = reinterpret_cast<uint32_t*>(bounce->lengths.bytes().data());
  XORBIT_RETURN_IF_ERROR(ParallelFor(threads_, end - begin, [&](uint64_t i) -> Status {
    const FrameOnDevice& frame = job.frames[begin + i];
    const MutableBytes mask = bounce->masks.bytes().subspan(frame.slot_offset - from, frame.mask_bytes);
    const Status decoded = CodecOf(job.kind).Decode({frame.inner, frame.inner_bytes}, mask);
    lengths[i] = decoded.ok() ? frame.mask_bytes : kNotDecoded;
    return {};
  }));
  const uint64_t byte_count = job.frames[end - 1].slot_offset + job.frames[end - 1].mask_bytes - from;
  XORBIT_RETURN_IF_ERROR(CudaStatus(
      cudaMemcpyAsync(job.slot_dev + from, bounce->masks.bytes().data(), byte_count, cudaMemcpyHostToDevice, job.stream),
      "cudaMemcpyAsync of masks to the device"));
  XORBIT_RETURN_IF_ERROR(CudaStatus(cudaMemcpyAsync(job.decoded_bytes_dev + begin, lengths, (end - begin) * sizeof(uint32_t),
                                                    cudaMemcpyHostToDevice, job.stream),
                                    "cudaMemcpyAsync of lengths to the device"));
  return CudaStatus(cudaEventRecord(bounce->copied.get(), job.stream), "cudaEventRecord");
}

}  // namespace xorbit::cuda
