// One piece of memory, handed out front to back: the same walk measures how much is needed and places everything.
#pragma once

#include <algorithm>
#include <cstdint>

#include "base/checked_math.h"

namespace xorbit::cuda {

// Without memory it only adds up.
class Arena {
 public:
  explicit Arena(uint8_t* memory) : memory_(memory) {}
  template <typename T>
  T* Take(uint64_t count) {
    constexpr uint64_t kPlaceAlignment = 256;
    const uint64_t at = used_bytes_;
    used_bytes_ += DivideRoundUp(std::max<uint64_t>(count * sizeof(T), 1), kPlaceAlignment) * kPlaceAlignment;
    return memory_ == nullptr ? nullptr : reinterpret_cast<T*>(memory_ + at);
  }
  uint64_t used_bytes() const { return used_bytes_; }

 private:
  uint8_t* memory_;
  uint64_t used_bytes_ = 0;
};

}  // namespace xorbit::cuda
