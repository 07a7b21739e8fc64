// Brings old bytes from page-locked host memory to the device, a step ahead of the diff, on a stream of its own.
#pragma once

#include "backend/cuda/cuda_memory.h"
#include "backend/cuda/send_window.h"

namespace xorbit::cuda {

class WindowFeed {
 public:
  // `slots_dev`: kWindowSlots of them, end to end.
  static Result<WindowFeed> Make(WindowPlan plan, uint8_t* slots_dev);

  const WindowPlan& plan() const { return plan_; }
  // To be called for all steps in turn, each between the two calls: `stream` waits until the step's bytes have come, and the
  // step after next until `stream` is done with them.
  Status Begin(uint64_t step, cudaStream_t stream);
  Status End(uint64_t step, cudaStream_t stream);

 private:
  // Starts a step's copies once its slot is free.
  Status Copy(uint64_t step);

  WindowPlan plan_;
  uint8_t* slots_dev_ = nullptr;
  Stream copies_;
  Event came_[kWindowSlots];
  Event free_[kWindowSlots];
};

}  // namespace xorbit::cuda
