// An update of mask codecs that waits on a GPU beside live memory there: Backend::Prepare for device memory and such payloads.
#pragma once

#include <memory>
#include <span>

#include "backend/backend.h"

namespace xorbit::cuda {

// The contract of PrepareOnDevice, for payloads of mask codecs. Keeps no undo log (kUnsupported): a mask holds every byte of
// the model, and so would its log. Inner frames are staged in host memory, and in the device's where that has room and the
// decoder reads it.
Result<std::unique_ptr<PreparedUpdate>> PrepareMasksOnDevice(const Layout& layout, std::span<const PayloadView> payloads,
                                                             const LiveMemory& live, const PrepareOptions& options, int device);

}  // namespace xorbit::cuda
