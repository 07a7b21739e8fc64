// Owners of CUDA's resources: device and pinned host memory, streams, events. Each frees what it holds; all calls that can fail
// say so by value.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>
#include <utility>

#include "base/bytes.h"
#include "base/status.h"

namespace xorbit::cuda {

// A handle that is released once; empty after a move. Release is a function that takes the handle.
template <typename Handle, auto kRelease>
class Owner {
 public:
  Owner() = default;
  explicit Owner(Handle handle) : handle_(handle) {}
  Owner(Owner&& other) noexcept : handle_(std::exchange(other.handle_, Handle{})) {}
  Owner& operator=(Owner&& other) noexcept {
    std::swap(handle_, other.handle_);
    return *this;
  }
  ~Owner() {
    // A failure to release is the aftermath of an error that an earlier call has reported.
    if (handle_ != Handle{}) static_cast<void>(kRelease(handle_));
  }
  Handle get() const { return handle_; }

 private:
  Handle handle_{};
};

using Stream = Owner<cudaStream_t, &cudaStreamDestroy>;
using Event = Owner<cudaEvent_t, &cudaEventDestroy>;
// Of the least priority, which is also the default: behind whatever an engine asks more for.
Result<Stream> MakeStream();
// Before all other streams, even an engine's: for a pause.
Result<Stream> MakeUrgentStream();
Result<Event> MakeEvent();
// One that a thread waits for asleep.
Result<Event> MakeSleepingEvent();
// Waits for both events, then tells the time between them.
Result<double> MillisecondsBetween(const Event& begin, const Event& end);

// Memory of the current device, at least 256-byte aligned.
class DeviceBuffer {
 public:
  static Result<DeviceBuffer> Make(uint64_t byte_count);
  DeviceBuffer() = default;
  uint8_t* data_dev() const { return static_cast<uint8_t*>(memory_.get()); }
  uint64_t byte_count() const { return byte_count_; }

 private:
  Owner<void*, &cudaFree> memory_;
  uint64_t byte_count_ = 0;
};

// Page-locked host memory that every device can read and write at the same address.
class PinnedBuffer {
 public:
  static Result<PinnedBuffer> Make(uint64_t byte_count);
  PinnedBuffer() = default;
  MutableBytes bytes() const { return {static_cast<uint8_t*>(memory_.get()), byte_count_}; }

 private:
  Owner<void*, &cudaFreeHost> memory_;
  uint64_t byte_count_ = 0;
};

}  // namespace xorbit::cuda
