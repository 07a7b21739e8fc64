// An update that waits on a GPU beside live memory there: Backend::Prepare for device memory.
#pragma once

#include <memory>
#include <span>

#include "backend/backend.h"

namespace xorbit::cuda {

// The contract of Backend::Prepare, for live memory all of whose regions and kept copies lie on `device`; nothing on that
// device may still be writing to them. Works on a stream of its own, and returns when pre-flight is done. The payloads are
// copied to the device, or, if it has no room, into pinned host memory, where apply then reads them.
Result<std::unique_ptr<PreparedUpdate>> PrepareOnDevice(const Layout& layout, std::span<const PayloadView> payloads,
                                                        const LiveMemory& live, const PrepareOptions& options, int device);

}  // namespace xorbit::cuda
