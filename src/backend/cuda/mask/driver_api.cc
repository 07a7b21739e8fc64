// The driver's functions, found through the runtime: nothing is linked that an older driver lacks.
#include "backend/cuda/mask/driver_api.h"

#include <cuda.h>
#include <cudaTypedefs.h>
#include <cuda_runtime_api.h>

#include <algorithm>
#include <string>

#include "backend/cuda/cuda_status.h"
#include "base/checked_math.h"

namespace xorbit::cuda {
namespace {

static_assert(sizeof(CUmemDecompressParams) == sizeof(DecompressRequest));
static_assert(offsetof(CUmemDecompressParams, srcNumBytes) == offsetof(DecompressRequest, coded_bytes));
static_assert(offsetof(CUmemDecompressParams, dstNumBytes) == offsetof(DecompressRequest, decoded_bytes));
static_assert(offsetof(CUmemDecompressParams, dstActBytes) == offsetof(DecompressRequest, actual_bytes));
static_assert(offsetof(CUmemDecompressParams, src) == offsetof(DecompressRequest, coded));
static_assert(offsetof(CUmemDecompressParams, dst) == offsetof(DecompressRequest, decoded));
static_assert(offsetof(CUmemDecompressParams, algo) == offsetof(DecompressRequest, algorithm));
static_assert(CU_MEM_DECOMPRESS_ALGORITHM_SNAPPY == kDecompressSnappy && CU_MEM_DECOMPRESS_ALGORITHM_LZ4 == kDecompressLz4);

template <typename Function>
Status Find(const char* name, unsigned version, Function* function) {
  cudaDriverEntryPointQueryResult found = cudaDriverEntryPointSymbolNotFound;
  void* pointer = nullptr;
  XORBIT_RETURN_IF_ERROR(CudaStatus(cudaGetDriverEntryPointByVersion(name, &pointer, version, cudaEnableDefault, &found),
                                    std::string("cudaGetDriverEntryPointByVersion of ") + name));
  if (found != cudaDriverEntryPointSuccess || pointer == nullptr) {
    return UnsupportedError(std::string("this machine's driver has no ") + name);
  }
  *function = reinterpret_cast<Function>(pointer);
  return {};
}

Status DriverStatus(CUresult result, const char* call) {
  if (result == CUDA_SUCCESS) return {};
  const std::string message = std::string(call) + " failed: error " + std::to_string(result) + " of the driver";
  return result == CUDA_ERROR_NOT_SUPPORTED ? UnsupportedError(message) : IoError(message);
}

class MachineDriver final : public DriverApi {
 public:
  Status Find() {
    XORBIT_RETURN_IF_ERROR(cuda::Find("cuDeviceGetAttribute", 12000, &get_attribute_));
    XORBIT_RETURN_IF_ERROR(cuda::Find("cuPointerGetAttribute", 12000, &get_pointer_attribute_));
    XORBIT_RETURN_IF_ERROR(cuda::Find("cuMemGetAllocationGranularity", 12000, &get_granularity_));
    XORBIT_RETURN_IF_ERROR(cuda::Find("cuMemCreate", 12000, &create_));
    XORBIT_RETURN_IF_ERROR(cuda::Find("cuMemRelease", 12000, &release_));
    XORBIT_RETURN_IF_ERROR(cuda::Find("cuMemAddressReserve", 12000, &reserve_));
    XORBIT_RETURN_IF_ERROR(cuda::Find("cuMemAddressFree", 12000, &free_address_));
    XORBIT_RETURN_IF_ERROR(cuda::Find("cuMemMap", 12000, &map_));
    XORBIT_RETURN_IF_ERROR(cuda::Find("cuMemUnmap", 12000, &unmap_));
    XORBIT_RETURN_IF_ERROR(cuda::Find("cuMemSetAccess", 12000, &set_access_));
    return cuda::Find("cuMemBatchDecompressAsync", 12060, &decompress_);
  }

  Result<uint32_t> Algorithms(int device) const override {
    XORBIT_ASSIGN_OR_RETURN(const int mask, Attribute(CU_DEVICE_ATTRIBUTE_MEM_DECOMPRESS_ALGORITHM_MASK, device));
    return static_cast<uint32_t>(mask);
  }
  Result<uint64_t> MostBytes(int device) const override {
    XORBIT_ASSIGN_OR_RETURN(const int most, Attribute(CU_DEVICE_ATTRIBUTE_MEM_DECOMPRESS_MAXIMUM_LENGTH, device));
    return static_cast<uint64_t>(most);
  }
  Result<bool> IsCapable(const void* memory) const override {
    int is_capable = 0;
    XORBIT_RETURN_IF_ERROR(DriverStatus(get_pointer_attribute_(&is_capable, CU_POINTER_ATTRIBUTE_IS_HW_DECOMPRESS_CAPABLE,
                                                               reinterpret_cast<CUdeviceptr>(memory)),
                                        "cuPointerGetAttribute"));
    return is_capable != 0;
  }
  Result<void*> MakeHostMemory(int device, uint64_t* byte_count) const override {
    XORBIT_ASSIGN_OR_RETURN(const int node, Attribute(CU_DEVICE_ATTRIBUTE_HOST_NUMA_ID, device));
    CUmemAllocationProp properties{};
    properties.type = CU_MEM_ALLOCATION_TYPE_PINNED;
    properties.location = {CU_MEM_LOCATION_TYPE_HOST_NUMA, node < 0 ? 0 : node};
    properties.allocFlags.usage = CU_MEM_CREATE_USAGE_HW_DECOMPRESS;
    size_t granularity = 0;
    XORBIT_RETURN_IF_ERROR(DriverStatus(get_granularity_(&granularity, &properties, CU_MEM_ALLOC_GRANULARITY_RECOMMENDED),
                                        "cuMemGetAllocationGranularity"));
    const uint64_t rounded = DivideRoundUp(std::max<uint64_t>(*byte_count, 1), granularity) * granularity;
    CUmemGenericAllocationHandle handle = 0;
    XORBIT_RETURN_IF_ERROR(DriverStatus(create_(&handle, rounded, &properties, 0), "cuMemCreate of host memory"));
    CUdeviceptr address = 0;
    Status status = DriverStatus(reserve_(&address, rounded, 0, 0, 0), "cuMemAddressReserve");
    if (status.ok()) status = MapAt(address, rounded, handle, node < 0 ? 0 : node, device);
    // What is mapped holds the memory.
    static_cast<void>(release_(handle));
    if (!status.ok()) return status;
    *byte_count = rounded;
    return reinterpret_cast<void*>(address);
  }
  void FreeHostMemory(void* memory, uint64_t byte_count) const override {
    const auto address = reinterpret_cast<CUdeviceptr>(memory);
    // A failure is the aftermath of an error that an earlier call has reported.
    static_cast<void>(unmap_(address, byte_count));
    static_cast<void>(free_address_(address, byte_count));
  }
  Status Decompress(std::span<DecompressRequest> requests, uint64_t* failed_request, StreamHandle stream) const override {
    size_t failed = SIZE_MAX;
    const CUresult result =
        decompress_(reinterpret_cast<CUmemDecompressParams*>(requests.data()), requests.size(), 0, &failed, stream);
    *failed_request = failed == SIZE_MAX ? kNoRequest : failed;
    return DriverStatus(result, "cuMemBatchDecompressAsync");
  }

 private:
  Result<int> Attribute(CUdevice_attribute attribute, int device) const {
    int value = 0;
    XORBIT_RETURN_IF_ERROR(DriverStatus(get_attribute_(&value, attribute, device), "cuDeviceGetAttribute"));
    return value;
  }

  // Readable by the device, all of it by the host. Frees the address if that fails.
  Status MapAt(CUdeviceptr address, uint64_t byte_count, CUmemGenericAllocationHandle handle, int node, int device) const {
    Status status = DriverStatus(map_(address, byte_count, 0, handle, 0), "cuMemMap of host memory");
    if (status.ok()) {
      const CUmemAccessDesc access[] = {{{CU_MEM_LOCATION_TYPE_HOST_NUMA, node}, CU_MEM_ACCESS_FLAGS_PROT_READWRITE},
                                        {{CU_MEM_LOCATION_TYPE_DEVICE, device}, CU_MEM_ACCESS_FLAGS_PROT_READWRITE}};
      status = DriverStatus(set_access_(address, byte_count, access, 2), "cuMemSetAccess of host memory");
      if (!status.ok()) static_cast<void>(unmap_(address, byte_count));
    }
    if (!status.ok()) static_cast<void>(free_address_(address, byte_count));
    return status;
  }

  PFN_cuMemGetAllocationGranularity_v10020 get_granularity_ = nullptr;
  PFN_cuMemCreate_v10020 create_ = nullptr;
  PFN_cuMemRelease_v10020 release_ = nullptr;
  PFN_cuMemAddressReserve_v10020 reserve_ = nullptr;
  PFN_cuMemAddressFree_v10020 free_address_ = nullptr;
  PFN_cuMemMap_v10020 map_ = nullptr;
  PFN_cuMemUnmap_v10020 unmap_ = nullptr;
  PFN_cuMemSetAccess_v10020 set_access_ = nullptr;
  PFN_cuDeviceGetAttribute_v2000 get_attribute_ = nullptr;
  PFN_cuPointerGetAttribute_v4000 get_pointer_attribute_ = nullptr;
  PFN_cuMemBatchDecompressAsync_v12060 decompress_ = nullptr;
};

}  // namespace

Result<const DriverApi*> FindDriverApi() {
  static MachineDriver driver;
  static const Status found = driver.Find();
  if (!found.ok()) return found;
  return static_cast<const DriverApi*>(&driver);
}

}  // namespace xorbit::cuda
