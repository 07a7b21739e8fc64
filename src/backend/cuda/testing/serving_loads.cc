#include "backend/cuda/testing/serving_loads.h"

#include <algorithm>
#include <string>

#include "backend/cuda/cuda_status.h"
#include "backend/cuda/paced_run.h"
#include "backend/cuda/report_of.h"
#include "codec/change_digest.h"

namespace xorbit::cuda::testing {

Result<ServingLoads> ServingLoads::Make(const BigModel& model, const LiveModel& live) {
  ServingLoads loads;
  loads.model_ = &model;
  XORBIT_ASSIGN_OR_RETURN(loads.stream_, MakeStream());
  XORBIT_ASSIGN_OR_RETURN(loads.payload_host_, PinnedBuffer::Make(model.payload_bytes.size()));
  std::copy(model.payload_bytes.begin(), model.payload_bytes.end(), loads.payload_host_.bytes().begin());
  XORBIT_ASSIGN_OR_RETURN(loads.payload_, DeviceBuffer::Make(model.payload_bytes.size()));
  XORBIT_ASSIGN_OR_RETURN(loads.plan_, PlanUpdate(model.layout, model.payloads, model.map, live.regions()));
  XORBIT_ASSIGN_OR_RETURN(loads.update_memory_, DeviceBuffer::Make(StagedUpdate::BytesFor(loads.plan_, {})));
  XORBIT_ASSIGN_OR_RETURN(loads.update_,
                          StagedUpdate::Stage(loads.plan_, {}, loads.update_memory_.data_dev(), loads.stream_.get()));
  const std::vector<uint64_t> keys = TensorKeysOf(model.layout);
  std::vector<ScanRange> ranges;
  for (size_t i = 0; i < keys.size() && loads.scanned_bytes_ < model.byte_count / 10; ++i) {
    const RegionBounds& tensor = live.tensors()[i];
    ranges.push_back({tensor.begin, tensor.end - tensor.begin, 0, keys[i]});
    loads.scanned_bytes_ += ranges.back().byte_count;
  }
  const std::vector<ScanRange> pieces = CutScanRanges(ranges);
  loads.piece_count_ = pieces.size();
  XORBIT_ASSIGN_OR_RETURN(loads.pieces_, UploadAll(pieces));
  XORBIT_ASSIGN_OR_RETURN(loads.digest_, DeviceBuffer::Make(sizeof(StateDigest)));
  return loads;
}

Status ServingLoads::Wait() const {
  return CudaStatus(cudaStreamSynchronize(stream_.get()), "cudaStreamSynchronize of the background");
}

Status ServingLoads::Fetch(const ServingThrottle& throttle) {
  XORBIT_RETURN_IF_ERROR(CopyPaced(payload_.data_dev(), payload_host_.bytes().data(), payload_host_.bytes().size(), "a payload",
                                   throttle, stream_.get()));
  return Wait();
}

Status ServingLoads::Preflight(const ServingThrottle& throttle) {
  XORBIT_RETURN_IF_ERROR(update_.ClearCounters(stream_.get()));
  XORBIT_RETURN_IF_ERROR(RunPaced(plan_.item_count, throttle, stream_.get(), [&](uint64_t begin, uint64_t end) {
    return LaunchPreflight(update_.Slice(plan_, begin, end), false, {0, throttle.blocks}, stream_.get());
  }));
  XORBIT_ASSIGN_OR_RETURN(const std::vector<PayloadCounters> counters, update_.ReadCounters(stream_.get()));
  XORBIT_RETURN_IF_ERROR(StatusOfReports(plan_, counters));
  if (counters[0].local_change_count == plan_.change_count) return {};
  return CorruptError("pre-flight saw " + std::to_string(counters[0].local_change_count) + " changes of " +
                      std::to_string(plan_.change_count));
}

Status ServingLoads::Scan(const ServingThrottle& throttle) {
  auto* sum_dev = reinterpret_cast<StateDigest*>(digest_.data_dev());
  XORBIT_RETURN_IF_ERROR(CudaStatus(cudaMemsetAsync(sum_dev, 0, sizeof(StateDigest), stream_.get()), "cudaMemsetAsync"));
  const auto* pieces_dev = reinterpret_cast<const ScanRange*>(pieces_.data_dev());
  XORBIT_RETURN_IF_ERROR(RunPaced(piece_count_, throttle, stream_.get(), [&](uint64_t begin, uint64_t end) {
    return LaunchScan(pieces_dev + begin, end - begin, 2, throttle.blocks, sum_dev, stream_.get());
  }));
  StateDigest found;
  XORBIT_RETURN_IF_ERROR(
      CudaStatus(cudaMemcpyAsync(&found, sum_dev, sizeof(found), cudaMemcpyDeviceToHost, stream_.get()), "cudaMemcpyAsync"));
  XORBIT_RETURN_IF_ERROR(Wait());
  if (!has_expected_) expected_ = found;
  has_expected_ = true;
  return found == expected_ ? Status() : CorruptError("a scan in slices found another digest than one without");
}

}  // namespace xorbit::cuda::testing
