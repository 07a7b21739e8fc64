// D of live memory on a device, read there through its map: Backend::ScanLive for device memory.
#pragma once

#include "backend/backend.h"

namespace xorbit::cuda {

// The contract of Backend::ScanLive, for live memory all of whose regions and kept copies lie on `device`. Works on a stream of
// its own.
Result<StateDigest> ScanDeviceMemory(const Layout& layout, const LiveMemory& live, ScanScope scope,
                                     const ServingThrottle& throttle, int device);

}  // namespace xorbit::cuda
