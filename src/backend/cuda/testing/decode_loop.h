// An engine that decodes as fast as it can: step after step without a gap, each one graph of kernels that read weights.
#pragma once

#include <functional>
#include <vector>

#include "backend/cuda/cuda_memory.h"
#include "backend/cuda/testing/decode_kernels.h"

namespace xorbit::cuda::testing {

struct DecodeOptions {
  DecodeShape shape = DecodeShape::kManyBlocks;
  bool has_high_priority = true;  // engines that ask for nothing have the default one, which is also the background's
  uint64_t step_bytes = 20'000'000'000;
};

class DecodeLoop {
 public:
  // Over weights on the current device, which are only read and outlive the loop.
  static Result<DecodeLoop> Make(const uint8_t* weights_dev, uint64_t byte_count, const DecodeOptions& options);

  // Runs steps until there are enough, and returns the milliseconds of each from the end of the one before, in order.
  Result<std::vector<double>> Run(const std::function<bool(uint64_t step_count)>& enough) const;

 private:
  using Graph = Owner<cudaGraph_t, &cudaGraphDestroy>;
  using GraphExec = Owner<cudaGraphExec_t, &cudaGraphExecDestroy>;

  Status Capture(const uint8_t* weights_dev, const DecodeOptions& options);
  Status LaunchStep(uint64_t step) const;

  Stream stream_;
  DeviceBuffer sink_;
  PinnedBuffer inputs_host_;
  DeviceBuffer inputs_;
  std::vector<GraphExec> graphs_;  // taken in turn
};

}  // namespace xorbit::cuda::testing
