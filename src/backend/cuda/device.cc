#include "backend/cuda/device.h"

#include <cuda_runtime_api.h>

#include <string>
#include <utility>

#include "backend/cuda/cuda_status.h"

namespace xorbit::cuda {
namespace {

// A runtime of one major version runs on any driver of it.
constexpr int kLeastDriver = CUDART_VERSION / 1000 * 1000;
static_assert(kLeastDriver == 12000 || kLeastDriver == 13000);
constexpr const char* kLeastDriverName = kLeastDriver == 13000 ? "580 (CUDA 13.0)" : "525 (CUDA 12.0)";
constexpr int kLeastCapability = 8;  // sm_80

}  // namespace

Status CheckDevices() {
  int driver = 0;
  XORBIT_RETURN_IF_ERROR(CudaStatus(cudaDriverGetVersion(&driver), "cudaDriverGetVersion"));
  const std::string need = std::string("the CUDA backend needs an NVIDIA driver of version ") + kLeastDriverName + " or newer";
  if (driver == 0) return UnsupportedError(need + ", and this machine has none: use the CPU backend, or install one");
  if (driver < kLeastDriver) {
    return UnsupportedError(need + ", and this machine's is for CUDA " + std::to_string(driver / 1000) + "." +
                            std::to_string(driver % 1000 / 10) + ": update it, or use the CPU backend");
  }
  int count = 0;
  const cudaError_t error = cudaGetDeviceCount(&count);
  if (error == cudaErrorNoDevice || (error == cudaSuccess && count == 0)) {
    return UnsupportedError("this machine has an NVIDIA driver but no GPU that may be used: use the CPU backend");
  }
  XORBIT_RETURN_IF_ERROR(CudaStatus(error, "cudaGetDeviceCount"));
  for (int device = 0; device < count; ++device) {
    int major = 0;
    XORBIT_RETURN_IF_ERROR(CudaStatus(cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, device),
                                      "cudaDeviceGetAttribute of the compute capability"));
    if (major >= kLeastCapability) return {};
  }
  return UnsupportedError("the CUDA backend needs a GPU of compute capability 8.0 or higher: use the CPU backend");
}

Result<std::optional<int>> DeviceOf(std::span<const MutableBytes> stretches) {
  std::optional<std::optional<int>> found;
  for (const MutableBytes stretch : stretches) {
    if (stretch.empty()) continue;
    cudaPointerAttributes attributes{};
    XORBIT_RETURN_IF_ERROR(CudaStatus(cudaPointerGetAttributes(&attributes, stretch.data()), "cudaPointerGetAttributes"));
    const bool on_device = attributes.type == cudaMemoryTypeDevice || attributes.type == cudaMemoryTypeManaged;
    const std::optional<int> here = on_device ? std::optional<int>(attributes.device) : std::nullopt;
    if (!found) found = here;
    if (*found != here) {
      return UsageError("live memory lies partly on one device and partly elsewhere: prepare each device's by itself");
    }
  }
  return found.value_or(std::nullopt);
}

Result<CurrentDevice> CurrentDevice::Set(int device) {
  int before = 0;
  XORBIT_RETURN_IF_ERROR(CudaStatus(cudaGetDevice(&before), "cudaGetDevice"));
  XORBIT_RETURN_IF_ERROR(CudaStatus(cudaSetDevice(device), "cudaSetDevice of device " + std::to_string(device)));
  return CurrentDevice(before);
}

CurrentDevice::CurrentDevice(CurrentDevice&& other) noexcept : before_(std::exchange(other.before_, std::nullopt)) {}

CurrentDevice::~CurrentDevice() {
  // It was current before, so there is nothing to report that an earlier call has not.
  if (before_) static_cast<void>(cudaSetDevice(*before_));
}

}  // namespace xorbit::cuda
