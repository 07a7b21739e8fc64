// The steady clock as a number: what receipts hold, and what processes of one machine compare with each other.
#pragma once

#include <chrono>
#include <cstdint>

namespace xorbit {

inline int64_t SteadyNs() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

}  // namespace xorbit
