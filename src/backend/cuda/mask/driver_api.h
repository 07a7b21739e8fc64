// What a decompression engine asks of the CUDA driver, behind an interface: the driver's functions are found at run time, and
// tests put another in their place, since hardware that has an engine is rare.
#pragma once

#include <cstdint>
#include <span>

#include "backend/cuda/mask/frame_decoder.h"

namespace xorbit::cuda {

// The driver's CUmemDecompressParams; driver_api.cc pins one to the other.
struct DecompressRequest {
  uint64_t coded_bytes;
  uint64_t decoded_bytes;  // expected: a hint
  uint32_t* actual_bytes;  // written when it is done
  const void* coded;
  void* decoded;
  uint32_t algorithm;   // one of the bits below
  uint8_t padding[20];  // zero
};
static_assert(sizeof(DecompressRequest) == 64);

inline constexpr uint32_t kDecompressSnappy = 2;
inline constexpr uint32_t kDecompressLz4 = 4;
inline constexpr uint64_t kNoRequest = ~uint64_t{0};

class DriverApi {
 public:
  DriverApi() = default;
  DriverApi(const DriverApi&) = delete;
  DriverApi& operator=(const DriverApi&) = delete;
  virtual ~DriverApi() = default;

  // Of a device: a bit for each algorithm that its engine reads; 0 where there is none.
  virtual Result<uint32_t> Algorithms(int device) const = 0;
  // The most bytes of one request, coded or decoded.
  virtual Result<uint64_t> MostBytes(int device) const = 0;
  // Whether the engine may read and write this memory.
  virtual Result<bool> IsCapable(const void* memory) const = 0;
  // Page-locked memory on the device's NUMA node that it reads, its engine too; *byte_count is rounded up to what was made. To
  // be freed with the same numbers. kUnsupported or kIo where the driver makes none.
  virtual Result<void*> MakeHostMemory(int device, uint64_t* byte_count) const = 0;
  virtual void FreeHostMemory(void* memory, uint64_t byte_count) const = 0;
  // One unit of the stream's work; the requests must stay until it is done. On failure *failed_request is the one that failed,
  // or kNoRequest.
  virtual Status Decompress(std::span<DecompressRequest> requests, uint64_t* failed_request, StreamHandle stream) const = 0;
};

// The machine's. kUnsupported if its driver has no such function. Static lifetime.
Result<const DriverApi*> FindDriverApi();

}  // namespace xorbit::cuda
