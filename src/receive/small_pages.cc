#include "receive/small_pages.h"

namespace xorbit {

std::string SmallPagesAdvice(std::span<const uint64_t> allocated_bytes) {
  uint64_t count = 0;
  uint64_t byte_count = 0;
  for (const uint64_t bytes : allocated_bytes) {
    if (bytes < kDevicePageBytes || bytes % kDevicePageBytes == 0) continue;
    ++count;
    byte_count += bytes;
  }
  if (count == 0) return {};
  return std::to_string(count) + " of the engine's " + std::to_string(allocated_bytes.size()) +
         " allocations on the device, with " + std::to_string(byte_count) +
         " bytes, are no multiple of 2 MiB and so mapped here in small pages: updates of them take several times as long; have "
         "the engine allocate multiples of 2 MiB";
}

}  // namespace xorbit
