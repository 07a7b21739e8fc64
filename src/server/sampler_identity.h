// Which process answers: what a driver compares, so that an engine that was restarted between two calls is not taken for the
// one that had prepared.
#pragma once

#include <cstdint>
#include <string>

namespace xorbit {

struct SamplerIdentity {
  std::string engine_id;  // as the user named it, or hostname:pid
  std::string hostname;
  uint64_t pid = 0;
  uint64_t start_ticks = 0;  // when this process began, in the kernel's clock ticks since boot: pids are used again
  friend bool operator==(const SamplerIdentity&, const SamplerIdentity&) = default;
};

// Of this process.
SamplerIdentity ThisSampler(const std::string& engine_id);

}  // namespace xorbit
