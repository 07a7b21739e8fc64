// The backend on host memory: always built, on any machine, and the oracle for every other one.
#pragma once

#include <memory>

#include "backend/backend.h"

namespace xorbit {

// Uses the CPU level that is active when a call starts.
std::unique_ptr<Backend> MakeCpuBackend();

}  // namespace xorbit
