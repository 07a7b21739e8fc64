// The same contract in builds without nvcc: one error that says so, so that callers need no switch.
#include "backend/cuda/cuda_backend.h"

namespace xorbit {

Result<std::unique_ptr<Backend>> MakeCudaBackend() {
  return UnsupportedError("this xorbit was built without the CUDA toolkit, so it has no CUDA backend: build it where nvcc is");
}

}  // namespace xorbit
