// What moving all weights costs on the same GPUs: the rivals of a delta, in the same run.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/status.h"

namespace xorbit {

// `times_ms` is by the clock on the wall, over all devices: from the first launch to the last end. Empty if it was not run, and
// then `note` says why.
struct DenseRow {
  std::string name;
  std::vector<double> times_ms;
  uint64_t byte_count = 0;  // that every device receives, or changes
  std::string note;
};

// Copies full weights from device to device (on one: within it), XORs a ready mask into them on every device, and broadcasts
// them from device 0 by NCCL, on devices 0 to device_count - 1, each of which needs twice `byte_count` of memory. NCCL is
// libnccl.so.2, in `nccl_folder` if that is not empty, else wherever the loader finds it.
Result<std::vector<DenseRow>> MeasureDense(int device_count, uint64_t byte_count, int rounds, const std::string& nccl_folder);

}  // namespace xorbit
