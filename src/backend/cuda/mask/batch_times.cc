#include "backend/cuda/mask/batch_times.h"

#include "backend/cuda/cuda_status.h"
#include "base/steady_clock.h"

namespace xorbit::cuda {

Status BatchTimes::Start(cudaStream_t stream) {
  slices_.clear();
  XORBIT_ASSIGN_OR_RETURN(origin_, MakeEvent());
  XORBIT_RETURN_IF_ERROR(CudaStatus(cudaStreamSynchronize(stream), "cudaStreamSynchronize before a trace"));
  XORBIT_RETURN_IF_ERROR(CudaStatus(cudaEventRecord(origin_.get(), stream), "cudaEventRecord"));
  XORBIT_RETURN_IF_ERROR(CudaStatus(cudaEventSynchronize(origin_.get()), "cudaEventSynchronize before a trace"));
  origin_ns_ = SteadyNs();
  return {};
}

Status BatchTimes::Begin(const std::string& row, uint64_t batch_index, cudaStream_t stream) {
  Slice slice{row, batch_index, {}, {}};
  XORBIT_ASSIGN_OR_RETURN(slice.begin, MakeEvent());
  XORBIT_ASSIGN_OR_RETURN(slice.end, MakeEvent());
  XORBIT_RETURN_IF_ERROR(CudaStatus(cudaEventRecord(slice.begin.get(), stream), "cudaEventRecord"));
  slices_.push_back(std::move(slice));
  return {};
}

Status BatchTimes::End(cudaStream_t stream) {
  return CudaStatus(cudaEventRecord(slices_.back().end.get(), stream), "cudaEventRecord");
}

Status BatchTimes::AddTo(SpanLog* log) {
  for (const Slice& slice : slices_) {
    XORBIT_ASSIGN_OR_RETURN(const double begin_ms, MillisecondsBetween(origin_, slice.begin));
    XORBIT_ASSIGN_OR_RETURN(const double end_ms, MillisecondsBetween(origin_, slice.end));
    log->Add({"device", slice.row, "batch " + std::to_string(slice.batch_index),
              origin_ns_ + static_cast<int64_t>(begin_ms * 1e6), origin_ns_ + static_cast<int64_t>(end_ms * 1e6)});
  }
  slices_.clear();
  origin_ns_ = 0;
  return {};
}

}  // namespace xorbit::cuda
