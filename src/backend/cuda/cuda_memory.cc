#include "backend/cuda/cuda_memory.h"

#include <algorithm>
#include <string>

#include "backend/cuda/cuda_status.h"

namespace xorbit::cuda {

namespace {

Result<Stream> MakeStreamOf(bool is_urgent) {
  int least = 0;
  int greatest = 0;
  XORBIT_RETURN_IF_ERROR(CudaStatus(cudaDeviceGetStreamPriorityRange(&least, &greatest), "cudaDeviceGetStreamPriorityRange"));
  cudaStream_t stream = nullptr;
  XORBIT_RETURN_IF_ERROR(CudaStatus(cudaStreamCreateWithPriority(&stream, cudaStreamNonBlocking, is_urgent ? greatest : least),
                                    "cudaStreamCreateWithPriority"));
  return Stream(stream);
}

}  // namespace

Result<Stream> MakeStream() { return MakeStreamOf(false); }
Result<Stream> MakeUrgentStream() { return MakeStreamOf(true); }

Result<Event> MakeEvent() {
  cudaEvent_t event = nullptr;
  XORBIT_RETURN_IF_ERROR(CudaStatus(cudaEventCreate(&event), "cudaEventCreate"));
  return Event(event);
}

Result<Event> MakeSleepingEvent() {
  cudaEvent_t event = nullptr;
  XORBIT_RETURN_IF_ERROR(CudaStatus(cudaEventCreateWithFlags(&event, cudaEventBlockingSync), "cudaEventCreateWithFlags"));
  return Event(event);
}

Result<double> MillisecondsBetween(const Event& begin, const Event& end) {
  XORBIT_RETURN_IF_ERROR(CudaStatus(cudaEventSynchronize(end.get()), "cudaEventSynchronize"));
  float milliseconds = 0;
  XORBIT_RETURN_IF_ERROR(CudaStatus(cudaEventElapsedTime(&milliseconds, begin.get(), end.get()), "cudaEventElapsedTime"));
  return static_cast<double>(milliseconds);
}

Result<DeviceBuffer> DeviceBuffer::Make(uint64_t byte_count) {
  void* memory = nullptr;
  const uint64_t asked = std::max<uint64_t>(byte_count, 1);
  XORBIT_RETURN_IF_ERROR(CudaStatus(cudaMalloc(&memory, asked), "cudaMalloc of " + std::to_string(asked) + " bytes"));
  DeviceBuffer buffer;
  buffer.memory_ = Owner<void*, &cudaFree>(memory);
  buffer.byte_count_ = byte_count;
  return buffer;
}

Result<PinnedBuffer> PinnedBuffer::Make(uint64_t byte_count) {
  void* memory = nullptr;
  const uint64_t asked = std::max<uint64_t>(byte_count, 1);
  XORBIT_RETURN_IF_ERROR(CudaStatus(cudaHostAlloc(&memory, asked, cudaHostAllocPortable | cudaHostAllocMapped),
                                    "cudaHostAlloc of " + std::to_string(asked) + " bytes"));
  PinnedBuffer buffer;
  buffer.memory_ = Owner<void*, &cudaFreeHost>(memory);
  buffer.byte_count_ = byte_count;
  return buffer;
}

}  // namespace xorbit::cuda
