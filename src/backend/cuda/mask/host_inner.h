// Pinned host memory for inner frames: such that a decompression engine reads it, where it is asked for and the driver makes
// it, and otherwise the ordinary kind.
#pragma once

#include <utility>

#include "backend/cuda/cuda_memory.h"
#include "backend/cuda/mask/driver_api.h"

namespace xorbit::cuda {

// kInnerAlignment-aligned.
class HostInner {
 public:
  // engine_driver: null if no engine reads it. Whether the engine does take it is for its decoder to ask.
  static Result<HostInner> Make(uint64_t byte_count, const DriverApi* engine_driver, int device) {
    HostInner inner;
    inner.byte_count_ = byte_count;
    if (engine_driver != nullptr) {
      uint64_t made_bytes = byte_count;
      const Result<void*> memory = engine_driver->MakeHostMemory(device, &made_bytes);
      if (memory.ok()) {
        inner.driver_ = engine_driver;
        inner.memory_ = *memory;
        inner.made_bytes_ = made_bytes;
        return inner;
      }
    }
    XORBIT_ASSIGN_OR_RETURN(inner.pinned_, PinnedBuffer::Make(byte_count));
    inner.memory_ = inner.pinned_.bytes().data();
    return inner;
  }
  HostInner() = default;
  HostInner(HostInner&& other) noexcept { Swap(&other); }
  HostInner& operator=(HostInner&& other) noexcept {
    Swap(&other);
    return *this;
  }
  ~HostInner() {
    if (driver_ != nullptr) driver_->FreeHostMemory(memory_, made_bytes_);
  }

  MutableBytes bytes() const { return {static_cast<uint8_t*>(memory_), byte_count_}; }

 private:
  void Swap(HostInner* other) {
    std::swap(pinned_, other->pinned_);
    std::swap(driver_, other->driver_);
    std::swap(memory_, other->memory_);
    std::swap(made_bytes_, other->made_bytes_);
    std::swap(byte_count_, other->byte_count_);
  }

  PinnedBuffer pinned_;
  const DriverApi* driver_ = nullptr;  // whose memory it is, if not pinned_
  void* memory_ = nullptr;
  uint64_t made_bytes_ = 0;
  uint64_t byte_count_ = 0;
};

}  // namespace xorbit::cuda
