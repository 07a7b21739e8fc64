// The same contract in builds without nvcc: one error that says so, so that callers need no switch.
#include "backend/cuda/cuda_backend.h"
#include "backend/cuda/device_memory.h"

namespace xorbit {
namespace {

Status NoCuda() {
  return UnsupportedError("this xorbit was built without the CUDA toolkit, so it has no CUDA backend: build it where nvcc is");
}

}  // namespace

Result<std::unique_ptr<Backend>> MakeCudaBackend() { return NoCuda(); }

Result<std::unique_ptr<DeviceMemory>> AllocateDeviceMemory(int /*device*/, uint64_t /*byte_count*/) { return NoCuda(); }

Status UploadToDevice(const DeviceMemory& /*memory*/, const ChunkMaker& /*make*/, int /*threads*/) { return NoCuda(); }

Result<DeviceMemoryHandle> ExportDeviceMemory(MutableBytes /*allocation*/) { return NoCuda(); }

Result<std::unique_ptr<DeviceMemory>> OpenDeviceMemory(const DeviceMemoryHandle& /*handle*/, uint64_t /*byte_count*/) {
  return NoCuda();
}

}  // namespace xorbit
