// Allocations of a device that another process maps in small pages. On an H200 an update of 20 GB through such a mapping took 9
// times as long as one in memory of the process's own, and nothing else tells why.
#pragma once

#include <cstdint>
#include <span>
#include <string>

namespace xorbit {

// Pages of a device that are mapped whole.
inline constexpr uint64_t kDevicePageBytes = uint64_t{2} << 20;

// In one line, what the owner of these allocations should do, so that who has opened them by CUDA IPC need not be slow: those
// that are no multiple of a page are mapped in small ones. Empty: nothing. One that is shorter than a page is too small to
// matter.
std::string SmallPagesAdvice(std::span<const uint64_t> allocated_bytes);

}  // namespace xorbit
