// When a device's streams did what with each batch of masks, by events around it: for a trace, when somebody asks for one.
#pragma once

#include <string>
#include <vector>

#include "backend/cuda/cuda_memory.h"
#include "base/span_log.h"

namespace xorbit::cuda {

// One thread at a time.
class BatchTimes {
 public:
  // Waits for the stream, so that the device's clock and the host's have a moment in common.
  Status Start(cudaStream_t stream);
  // In stream order, around one batch's work.
  Status Begin(const std::string& row, uint64_t batch_index, cudaStream_t stream);
  Status End(cudaStream_t stream);
  // After the streams were waited for: what was noted since Start, which is then forgotten.
  Status AddTo(SpanLog* log);

 private:
  struct Slice {
    std::string row;
    uint64_t batch_index;
    Event begin;
    Event end;
  };

  Event origin_;
  int64_t origin_ns_ = 0;
  std::vector<Slice> slices_;
};

}  // namespace xorbit::cuda
