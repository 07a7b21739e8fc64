// One random case of the parity checks: an update, and live memory for it on the device.
#pragma once

#include <string>
#include <vector>

#include "backend/cuda/testing/random_update.h"
#include "backend/cuda/testing/timing.h"
#include "backend/cuda/update_on_device.h"
#include "tensor/random_live_map.h"

namespace xorbit::gpu_check {

// A random update and live memory under a random map on the device: pieces in any order, rows apart, half bytes moved, copies;
// every fourth map is the canonical one. Regions begin at any byte and mostly end where their words may not be touched.
struct Case {
  uint64_t seed = 0;
  cuda::testing::RandomUpdate update;
  LiveMap map;
  cuda::DeviceBuffer memory;
  std::vector<cuda::RegionBounds> regions;
  const Layout& layout() const { return update.layout; }
};

// "parity seed N: what".
std::string Where(const Case& c, const std::string& what);
Result<Case> MakeCase(const Backend& backend, uint64_t seed, CodecId codec = CodecId::kSparse,
                      const EncodeOptions& encoding = {});
// The regions' bytes, were they set from these tensors; bytes of no piece are 0xa5.
std::vector<Buffer> ImageOf(const Case& c, const RandomTensors& tensors);
Status SetLive(const Case& c, const RandomTensors& tensors);
// The first region and byte where the device differs, or nothing.
std::string FirstDifference(const Case& c, const RandomTensors& tensors);
uint8_t* RegionOnDevice(const Case& c, size_t region_index);

}  // namespace xorbit::gpu_check
