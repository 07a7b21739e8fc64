#include "backend/cuda/paced_run.h"

#include <algorithm>
#include <chrono>
#include <string>
#include <thread>

#include "backend/cuda/cuda_memory.h"
#include "backend/cuda/cuda_status.h"
#include "backend/cuda/slice_pacer.h"
#include "base/checked_math.h"

namespace xorbit::cuda {
namespace {

constexpr uint64_t kCopyUnitBytes = uint64_t{256} << 10;

bool IsShare(double share) { return share > 0 && share <= 1; }

Status RunSlices(uint64_t unit_count, const PaceLimits& limits, cudaStream_t stream, const LaunchSlice& launch) {
  XORBIT_ASSIGN_OR_RETURN(const Event begin, MakeEvent());
  XORBIT_ASSIGN_OR_RETURN(const Event end, MakeSleepingEvent());
  for (SlicePacer pacer(unit_count, limits); !pacer.done();) {
    XORBIT_RETURN_IF_ERROR(CudaStatus(cudaEventRecord(begin.get(), stream), "cudaEventRecord"));
    XORBIT_RETURN_IF_ERROR(launch(pacer.begin(), pacer.end()));
    XORBIT_RETURN_IF_ERROR(CudaStatus(cudaEventRecord(end.get(), stream), "cudaEventRecord"));
    XORBIT_RETURN_IF_ERROR(CudaStatus(cudaEventSynchronize(end.get()), "cudaEventSynchronize after a slice"));
    XORBIT_ASSIGN_OR_RETURN(const double milliseconds, MillisecondsBetween(begin, end));
    const double pause = pacer.Finish(milliseconds / 1e3);
    if (pause > 0) std::this_thread::sleep_for(std::chrono::duration<double>(pause));
  }
  return {};
}

Status CopyIn(void* to_dev, const void* from_host, uint64_t byte_count, const char* what, cudaStream_t stream) {
  return CudaStatus(cudaMemcpyAsync(to_dev, from_host, byte_count, cudaMemcpyHostToDevice, stream),
                    std::string("cudaMemcpyAsync of ") + what + " to the device");
}

}  // namespace

Status CheckThrottle(const ServingThrottle& throttle) {
  if (!IsShare(throttle.kernel_share)) return UsageError("the kernels' share of the time must be above 0 and at most 1");
  if (!IsShare(throttle.copy_share)) return UsageError("the copies' share of the time must be above 0 and at most 1");
  return {};
}

Status RunPaced(uint64_t unit_count, const ServingThrottle& throttle, cudaStream_t stream, const LaunchSlice& launch) {
  XORBIT_RETURN_IF_ERROR(CheckThrottle(throttle));
  if (throttle.slice_microseconds == 0) return unit_count == 0 ? Status() : launch(0, unit_count);
  // What any device that we run on does at once.
  constexpr uint32_t kManyBlocks = 128;
  const uint64_t least_units = throttle.blocks > 0 ? throttle.blocks : kManyBlocks;
  return RunSlices(unit_count, {throttle.slice_microseconds / 1e6, throttle.kernel_share, least_units}, stream, launch);
}

Status CopyPaced(void* to_dev, const void* from_host, uint64_t byte_count, const char* what, const ServingThrottle& throttle,
                 cudaStream_t stream) {
  XORBIT_RETURN_IF_ERROR(CheckThrottle(throttle));
  if (throttle.slice_microseconds == 0 || byte_count <= kCopyUnitBytes) {
    return CopyIn(to_dev, from_host, byte_count, what, stream);
  }
  return RunSlices(DivideRoundUp(byte_count, kCopyUnitBytes), {throttle.slice_microseconds / 1e6, throttle.copy_share, 4},
                   stream, [&](uint64_t begin, uint64_t end) {
                     const uint64_t at = begin * kCopyUnitBytes;
                     return CopyIn(static_cast<uint8_t*>(to_dev) + at, static_cast<const uint8_t*>(from_host) + at,
                                   std::min(end * kCopyUnitBytes, byte_count) - at, what, stream);
                   });
}

}  // namespace xorbit::cuda
