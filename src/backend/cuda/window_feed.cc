#include "backend/cuda/window_feed.h"

#include "backend/cuda/cuda_status.h"

namespace xorbit::cuda {

Result<WindowFeed> WindowFeed::Make(WindowPlan plan, uint8_t* slots_dev) {
  WindowFeed feed;
  feed.plan_ = std::move(plan);
  feed.slots_dev_ = slots_dev;
  XORBIT_ASSIGN_OR_RETURN(feed.copies_, MakeStream());
  for (uint32_t slot = 0; slot < kWindowSlots; ++slot) {
    XORBIT_ASSIGN_OR_RETURN(feed.came_[slot], MakeEvent());
    XORBIT_ASSIGN_OR_RETURN(feed.free_[slot], MakeEvent());
  }
  return feed;
}

Status WindowFeed::Begin(uint64_t step, cudaStream_t stream) {
  if (step == 0) {
    // What the caller's stream did before may still use the slots.
    for (uint64_t slot = 0; slot < kWindowSlots && slot < plan_.steps.size(); ++slot) {
      XORBIT_RETURN_IF_ERROR(CudaStatus(cudaEventRecord(free_[slot].get(), stream), "cudaEventRecord"));
      XORBIT_RETURN_IF_ERROR(Copy(slot));
    }
  }
  return CudaStatus(cudaStreamWaitEvent(stream, came_[step % kWindowSlots].get(), 0), "cudaStreamWaitEvent");
}

Status WindowFeed::End(uint64_t step, cudaStream_t stream) {
  XORBIT_RETURN_IF_ERROR(CudaStatus(cudaEventRecord(free_[step % kWindowSlots].get(), stream), "cudaEventRecord"));
  return step + kWindowSlots < plan_.steps.size() ? Copy(step + kWindowSlots) : Status();
}

Status WindowFeed::Copy(uint64_t step) {
  const WindowStep& what = plan_.steps[step];
  const uint64_t slot = step % kWindowSlots;
  XORBIT_RETURN_IF_ERROR(CudaStatus(cudaStreamWaitEvent(copies_.get(), free_[slot].get(), 0), "cudaStreamWaitEvent"));
  uint8_t* const slot_dev = slots_dev_ + slot * plan_.slot_bytes;
  for (uint64_t c = what.first_copy; c < what.end_copy; ++c) {
    const WindowCopy& copy = plan_.copies[c];
    XORBIT_RETURN_IF_ERROR(
        CudaStatus(cudaMemcpyAsync(slot_dev + copy.slot_offset, reinterpret_cast<const void*>(copy.host_address),
                                   copy.byte_count, cudaMemcpyHostToDevice, copies_.get()),
                   "cudaMemcpyAsync of old bytes to the device"));
  }
  return CudaStatus(cudaEventRecord(came_[slot].get(), copies_.get()), "cudaEventRecord");
}

}  // namespace xorbit::cuda
