#include "backend/cuda/mask/engine_decoder.h"

#include <string>

namespace xorbit::cuda {

Result<std::unique_ptr<EngineDecoder>> EngineDecoder::Make(const DriverApi& driver, int device, InnerKind kind,
                                                           FrameDecoder* for_long_frames) {
  XORBIT_ASSIGN_OR_RETURN(const uint32_t algorithms, driver.Algorithms(device));
  if (algorithms == 0) return UnsupportedError("this GPU has no decompression engine");
  const uint32_t algorithm = kind == InnerKind::kSnappy ? kDecompressSnappy : kind == InnerKind::kLz4 ? kDecompressLz4 : 0;
  if ((algorithms & algorithm) == 0) return UnsupportedError("this GPU's decompression engine does not read these frames");
  XORBIT_ASSIGN_OR_RETURN(const uint64_t most_bytes, driver.MostBytes(device));
  return std::unique_ptr<EngineDecoder>(new EngineDecoder(driver, algorithm, most_bytes, for_long_frames));
}

Status EngineDecoder::CheckReach(const DecodeJob& job) const {
  const std::pair<const void*, const char*> places[] = {
      {job.frames.front().inner, "frames"}, {job.slot_dev, "slots"}, {job.decoded_bytes_dev, "lengths"}};
  for (const auto& [memory, name] : places) {
    XORBIT_ASSIGN_OR_RETURN(const bool is_capable, driver_.IsCapable(memory));
    if (!is_capable) return UnsupportedError(std::string("the decompression engine does not reach the memory of ") + name);
  }
  return {};
}

Status EngineDecoder::Submit(const DecodeJob& job) {
  if (job.frames.empty()) return {};
  XORBIT_RETURN_IF_ERROR(CheckReach(job));
  std::vector<DecompressRequest>& requests = requests_[next_++ % requests_.size()];
  requests.clear();
  std::vector<uint64_t> frame_of;
  for (uint64_t i = 0; i < job.frames.size(); ++i) {
    const FrameOnDevice& frame = job.frames[i];
    if (!IsLong(frame)) {
      requests.push_back({frame.inner_bytes,
                          frame.mask_bytes,
                          job.decoded_bytes_dev + i,
                          frame.inner,
                          job.slot_dev + frame.slot_offset,
                          algorithm_,
                          {}});
      frame_of.push_back(i);
      continue;
    }
    DecodeJob alone = job;
    alone.fills_masks = true;
    alone.frames = job.frames.subspan(i, 1);
    alone.frames_dev += i;
    alone.decoded_bytes_dev += i;
    alone.states_dev += i;
    XORBIT_RETURN_IF_ERROR(for_long_frames_->Submit(alone));
  }
  if (requests.empty()) return {};
  uint64_t failed = kNoRequest;
  const Status status = driver_.Decompress(requests, &failed, job.stream);
  if (status.ok() || failed >= frame_of.size()) return status;
  return status.WithContext("frame " + std::to_string(frame_of[failed]) + " of a batch");
}

}  // namespace xorbit::cuda
