// The backend on the memory of NVIDIA GPUs, for who knows nothing of CUDA.
#pragma once

#include <memory>

#include "backend/backend.h"

namespace xorbit {

// Prepares, applies and scans live memory whose regions and kept copies lie on one device, any of this machine's, on that
// device, and encodes the difference of states there with the sparse codec. Everything in host memory goes the CPU backend's
// way.
//
// kUnsupported, in one line that says what is needed, if this build has no CUDA or this machine no usable GPU or driver.
Result<std::unique_ptr<Backend>> MakeCudaBackend();

}  // namespace xorbit
