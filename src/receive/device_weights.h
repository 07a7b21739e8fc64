// Live memory of our own on a device: a checkpoint as it is, in one allocation.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "backend/cuda/device_memory.h"
#include "receive/served_memory.h"
#include "tensor/layout.h"

namespace xorbit {

class DeviceWeights final : public ServedMemory {
 public:
  // `tensors` (layout order), copied to a device. Errors as of AllocateDeviceMemory.
  static Result<std::unique_ptr<DeviceWeights>> Load(const Layout& layout, std::span<const ConstBytes> tensors, int device,
                                                     int threads);

  const LiveMemory& live() const override { return live_; }

 private:
  explicit DeviceWeights(const Layout& layout) : map_(CanonicalMap(layout)) {}

  LiveMap map_;
  std::unique_ptr<DeviceMemory> memory_;
  std::vector<MutableBytes> regions_;
  LiveMemory live_;
};

}  // namespace xorbit
