// The devices of this machine: whether there is a usable one, which of them holds some memory, which one is current.
#pragma once

#include <optional>
#include <span>

#include "base/bytes.h"
#include "base/status.h"

namespace xorbit::cuda {

// kUnsupported, saying what is needed, if there is no GPU that this build has code for, or no driver that is new enough.
Status CheckDevices();

// The device on which all of this memory lies; nothing if all of it is the host's. kUsage if it is spread. Empty stretches lie
// anywhere.
Result<std::optional<int>> DeviceOf(std::span<const MutableBytes> stretches);

// Makes a device current for this thread, and the one before again at its end.
class CurrentDevice {
 public:
  static Result<CurrentDevice> Set(int device);
  CurrentDevice(CurrentDevice&& other) noexcept;
  CurrentDevice& operator=(CurrentDevice&&) = delete;
  ~CurrentDevice();

 private:
  explicit CurrentDevice(int before) : before_(before) {}
  std::optional<int> before_;
};

}  // namespace xorbit::cuda
