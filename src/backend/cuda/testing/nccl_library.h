// NCCL, found when the program runs: a rival to measure, not something to depend on. Only its documented calls.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <string>
#include <vector>

#include "base/status.h"

namespace xorbit::cuda::testing {

// One communicator a device of this process. Movable; one thread.
class NcclBroadcaster {
 public:
  // kUnsupported, saying why, if there is no library, or it cannot make communicators for devices 0 to device_count - 1.
  static Result<NcclBroadcaster> Make(const std::string& folder, int device_count);
  NcclBroadcaster(NcclBroadcaster&& other) noexcept;
  NcclBroadcaster& operator=(NcclBroadcaster&&) = delete;
  ~NcclBroadcaster();

  // Like 22705: 2.27.5.
  int version() const { return version_; }
  // From from_dev on device 0 to to_dev[i] on each device i, in the order of streams[i].
  Status Broadcast(const void* from_dev, const std::vector<void*>& to_dev, size_t byte_count,
                   const std::vector<cudaStream_t>& streams);

 private:
  struct Calls;
  NcclBroadcaster() = default;
  Status StatusOf(int result, const char* call) const;

  void* library_ = nullptr;
  const Calls* calls_ = nullptr;
  int version_ = 0;
  std::vector<void*> communicators_;
};

}  // namespace xorbit::cuda::testing
