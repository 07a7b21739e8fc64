#include "backend/cuda/device_memory.h"

#include <cuda.h>
#include <cudaTypedefs.h>
#include <cuda_runtime_api.h>

#include <algorithm>
#include <optional>
#include <utility>

#include "backend/cuda/cuda_memory.h"
#include "backend/cuda/cuda_status.h"
#include "backend/cuda/device.h"
#include "base/checked_math.h"
#include "base/object_pool.h"
#include "base/parallel.h"
#include "base/text.h"

namespace xorbit {
namespace {

using cuda::CudaStatus;
using cuda::CurrentDevice;

constexpr uint64_t kChunkBytes = uint64_t{32} << 20;

class OwnMemory final : public DeviceMemory {
 public:
  explicit OwnMemory(cuda::DeviceBuffer buffer) : buffer_(std::move(buffer)) {}
  MutableBytes bytes() const override { return {buffer_.data_dev(), buffer_.byte_count()}; }

 private:
  cuda::DeviceBuffer buffer_;
};

using OpenedBase = cuda::Owner<void*, &cudaIpcCloseMemHandle>;

class OpenedMemory final : public DeviceMemory {
 public:
  OpenedMemory(OpenedBase base, uint64_t byte_count, uint64_t allocated_bytes)
      : base_(std::move(base)), byte_count_(byte_count), allocated_bytes_(allocated_bytes) {}
  MutableBytes bytes() const override { return {static_cast<uint8_t*>(base_.get()), byte_count_}; }
  uint64_t allocated_bytes() const override { return allocated_bytes_; }

 private:
  OpenedBase base_;
  uint64_t byte_count_;
  uint64_t allocated_bytes_;
};

// A thread's way to the device.
struct Lane {
  cuda::Stream stream;
  cuda::PinnedBuffer chunk;
};

Result<Lane> MakeLane() {
  Lane lane;
  XORBIT_ASSIGN_OR_RETURN(lane.stream, cuda::MakeStream());
  XORBIT_ASSIGN_OR_RETURN(lane.chunk, cuda::PinnedBuffer::Make(kChunkBytes));
  return lane;
}

Result<int> DeviceAt(const void* address) {
  cudaPointerAttributes attributes{};
  XORBIT_RETURN_IF_ERROR(CudaStatus(cudaPointerGetAttributes(&attributes, address), "cudaPointerGetAttributes"));
  if (attributes.type == cudaMemoryTypeDevice) return attributes.device;
  return UsageError("only memory of a device can be exported by CUDA IPC: use shared memory for the host's");
}

Result<std::string> UuidOf(int device) {
  cudaDeviceProp properties{};
  XORBIT_RETURN_IF_ERROR(CudaStatus(cudaGetDeviceProperties(&properties, device), "cudaGetDeviceProperties"));
  return ToHex({reinterpret_cast<const uint8_t*>(properties.uuid.bytes), sizeof(properties.uuid.bytes)});
}

Result<int> DeviceOfUuid(const std::string& uuid) {
  int count = 0;
  XORBIT_RETURN_IF_ERROR(CudaStatus(cudaGetDeviceCount(&count), "cudaGetDeviceCount"));
  for (int device = 0; device < count; ++device) {
    XORBIT_ASSIGN_OR_RETURN(const std::string own, UuidOf(device));
    if (own == uuid) return device;
  }
  return RefusedError("the weights lie on GPU " + Quoted(uuid) +
                      ", which this process does not see: set CUDA_VISIBLE_DEVICES as for the engine");
}

// The allocation's size from `base` on, which the runtime does not tell.
Result<uint64_t> AllocatedBytes(const void* base) {
  cudaDriverEntryPointQueryResult found = cudaDriverEntryPointSymbolNotFound;
  void* function = nullptr;
  XORBIT_RETURN_IF_ERROR(
      CudaStatus(cudaGetDriverEntryPointByVersion("cuMemGetAddressRange", &function, 12000, cudaEnableDefault, &found),
                 "cudaGetDriverEntryPointByVersion of cuMemGetAddressRange"));
  if (found != cudaDriverEntryPointSuccess) return UnsupportedError("this machine's driver has no cuMemGetAddressRange");
  CUdeviceptr start = 0;
  size_t size = 0;
  const auto address = reinterpret_cast<CUdeviceptr>(base);
  const CUresult result = reinterpret_cast<PFN_cuMemGetAddressRange_v3020>(function)(&start, &size, address);
  if (result != CUDA_SUCCESS) return IoError("cuMemGetAddressRange failed: error " + std::to_string(result) + " of the driver");
  return size - (address - start);
}

}  // namespace

Result<std::unique_ptr<DeviceMemory>> AllocateDeviceMemory(int device, uint64_t byte_count) {
  XORBIT_RETURN_IF_ERROR(cuda::CheckDevices());
  int count = 0;
  XORBIT_RETURN_IF_ERROR(CudaStatus(cudaGetDeviceCount(&count), "cudaGetDeviceCount"));
  if (device < 0 || device >= count) {
    return UsageError("there is no device " + std::to_string(device) + ": this process sees " + std::to_string(count));
  }
  XORBIT_ASSIGN_OR_RETURN(const CurrentDevice current, CurrentDevice::Set(device));
  XORBIT_ASSIGN_OR_RETURN(cuda::DeviceBuffer buffer, cuda::DeviceBuffer::Make(byte_count));
  XORBIT_RETURN_IF_ERROR(CudaStatus(cudaMemset(buffer.data_dev(), 0, byte_count), "cudaMemset"));
  XORBIT_RETURN_IF_ERROR(CudaStatus(cudaDeviceSynchronize(), "cudaDeviceSynchronize"));
  return std::unique_ptr<DeviceMemory>(std::make_unique<OwnMemory>(std::move(buffer)));
}

Status UploadToDevice(const DeviceMemory& memory, const ChunkMaker& make, int threads) {
  const MutableBytes target = memory.bytes();
  XORBIT_ASSIGN_OR_RETURN(const int device, DeviceAt(target.data()));
  ObjectPool<std::optional<Lane>> lanes([] { return std::make_unique<std::optional<Lane>>(); });
  return ParallelFor(threads, DivideRoundUp(target.size(), kChunkBytes), [&](uint64_t i) -> Status {
    XORBIT_ASSIGN_OR_RETURN(const CurrentDevice current, CurrentDevice::Set(device));
    const auto lane = lanes.Borrow();
    if (!*lane) {
      XORBIT_ASSIGN_OR_RETURN(*lane, MakeLane());
    }
    const uint64_t offset = i * kChunkBytes;
    const MutableBytes chunk = (*lane)->chunk.bytes().first(std::min(kChunkBytes, target.size() - offset));
    make(offset, chunk);
    const cudaStream_t stream = (*lane)->stream.get();
    XORBIT_RETURN_IF_ERROR(
        CudaStatus(cudaMemcpyAsync(target.data() + offset, chunk.data(), chunk.size(), cudaMemcpyHostToDevice, stream),
                   "cudaMemcpyAsync of weights to the device"));
    return CudaStatus(cudaStreamSynchronize(stream), "cudaStreamSynchronize");
  });
}

Result<DeviceMemoryHandle> ExportDeviceMemory(MutableBytes allocation) {
  XORBIT_RETURN_IF_ERROR(cuda::CheckDevices());
  XORBIT_ASSIGN_OR_RETURN(const int device, DeviceAt(allocation.data()));
  DeviceMemoryHandle exported;
  XORBIT_ASSIGN_OR_RETURN(exported.device, UuidOf(device));
  XORBIT_ASSIGN_OR_RETURN(const CurrentDevice current, CurrentDevice::Set(device));
  cudaIpcMemHandle_t handle{};
  const cudaError_t error = cudaIpcGetMemHandle(&handle, allocation.data());
  if (error == cudaErrorInvalidValue || error == cudaErrorNotSupported) {
    static_cast<void>(cudaGetLastError());  // nothing is broken
    return RefusedError(
        "CUDA IPC cannot show this memory: allocate it with cudaMalloc; under PyTorch start the engine with "
        "PYTORCH_CUDA_ALLOC_CONF=expandable_segments:False");
  }
  XORBIT_RETURN_IF_ERROR(CudaStatus(error, "cudaIpcGetMemHandle"));
  exported.handle = ToHex({reinterpret_cast<const uint8_t*>(&handle), sizeof(handle)});
  return exported;
}

Result<std::unique_ptr<DeviceMemory>> OpenDeviceMemory(const DeviceMemoryHandle& handle, uint64_t byte_count) {
  XORBIT_RETURN_IF_ERROR(cuda::CheckDevices());
  cudaIpcMemHandle_t opaque{};
  if (!ParseHex(handle.handle, {reinterpret_cast<uint8_t*>(&opaque), sizeof(opaque)})) {
    return CorruptError("a CUDA IPC handle must be " + std::to_string(sizeof(opaque)) + " bytes in hexadecimal");
  }
  XORBIT_ASSIGN_OR_RETURN(const int device, DeviceOfUuid(handle.device));
  XORBIT_ASSIGN_OR_RETURN(const CurrentDevice current, CurrentDevice::Set(device));
  void* base = nullptr;
  const cudaError_t error = cudaIpcOpenMemHandle(&base, opaque, cudaIpcMemLazyEnablePeerAccess);
  if (error == cudaErrorInvalidResourceHandle || error == cudaErrorInvalidValue || error == cudaErrorMapBufferObjectFailed) {
    static_cast<void>(cudaGetLastError());
    return NotFoundError(
        "the engine's device memory is gone, or belongs to another machine or IPC namespace: start the engine "
        "again, and both where they see each other's processes");
  }
  XORBIT_RETURN_IF_ERROR(CudaStatus(error, "cudaIpcOpenMemHandle"));
  OpenedBase owned(base);
  XORBIT_ASSIGN_OR_RETURN(const uint64_t allocated_bytes, AllocatedBytes(base));
  if (allocated_bytes < byte_count) {
    return RefusedError("the engine's allocation has " + std::to_string(allocated_bytes) + " bytes, not " +
                        std::to_string(byte_count) + ": it must export what it tells");
  }
  return std::unique_ptr<DeviceMemory>(std::make_unique<OpenedMemory>(std::move(owned), byte_count, allocated_bytes));
}

}  // namespace xorbit
