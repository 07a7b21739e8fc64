#include "backend/cuda/testing/dense_rivals.h"

#include <cuda_runtime_api.h>

#include <functional>

#include "backend/cuda/cuda_memory.h"
#include "backend/cuda/cuda_status.h"
#include "backend/cuda/device.h"
#include "backend/cuda/testing/bench_kernels.h"
#include "backend/cuda/testing/nccl_library.h"
#include "base/stopwatch.h"

namespace xorbit {
namespace {

using cuda::CudaStatus;

// Two states' room and a stream on every device.
class Devices {
 public:
  Status Allocate(int count, uint64_t byte_count) {
    byte_count_ = byte_count / 16 * 16;
    for (int device = 0; device < count; ++device) {
      XORBIT_ASSIGN_OR_RETURN(const cuda::CurrentDevice current, cuda::CurrentDevice::Set(device));
      XORBIT_ASSIGN_OR_RETURN(cuda::DeviceBuffer memory, cuda::DeviceBuffer::Make(2 * byte_count_));
      XORBIT_RETURN_IF_ERROR(CudaStatus(cudaMemset(memory.data_dev(), 1, 2 * byte_count_), "cudaMemset"));
      XORBIT_ASSIGN_OR_RETURN(cuda::Stream stream, cuda::MakeStream());
      memory_.push_back(std::move(memory));
      streams_.push_back(std::move(stream));
    }
    return {};
  }

  int count() const { return static_cast<int>(memory_.size()); }
  uint64_t byte_count() const { return byte_count_; }
  uint8_t* weights(int device) const { return memory_[static_cast<size_t>(device)].data_dev(); }
  uint8_t* other(int device) const { return weights(device) + byte_count_; }
  cudaStream_t stream(int device) const { return streams_[static_cast<size_t>(device)].get(); }

  // Times `launch`, which queues work on every device; the first run, which finds nothing warm, is left out.
  Result<std::vector<double>> Time(int rounds, const std::function<Status()>& launch) const {
    std::vector<double> times_ms;
    for (int round = 0; round <= rounds; ++round) {
      const Stopwatch watch;
      XORBIT_RETURN_IF_ERROR(launch());
      for (int device = 0; device < count(); ++device) {
        XORBIT_RETURN_IF_ERROR(CudaStatus(cudaStreamSynchronize(stream(device)), "cudaStreamSynchronize"));
      }
      if (round > 0) times_ms.push_back(watch.seconds() * 1e3);
    }
    return times_ms;
  }

 private:
  uint64_t byte_count_ = 0;
  std::vector<cuda::DeviceBuffer> memory_;
  std::vector<cuda::Stream> streams_;
};

// Every device receives all of its weights from its neighbour, at once.
Result<DenseRow> MeasureCopy(const Devices& devices, int rounds) {
  const int count = devices.count();
  DenseRow row{"dense copy from device to device", {}, devices.byte_count(), ""};
  int has_peer = 1;
  for (int device = 0; device < count && count > 1; ++device) {
    int can = 0;
    XORBIT_RETURN_IF_ERROR(CudaStatus(cudaDeviceCanAccessPeer(&can, device, (device + 1) % count), "cudaDeviceCanAccessPeer"));
    has_peer &= can;
    if (can == 0) continue;
    XORBIT_ASSIGN_OR_RETURN(const cuda::CurrentDevice current, cuda::CurrentDevice::Set(device));
    XORBIT_RETURN_IF_ERROR(CudaStatus(cudaDeviceEnablePeerAccess((device + 1) % count, 0), "cudaDeviceEnablePeerAccess"));
  }
  if (count == 1) row.note = "one device: within its memory";
  if (has_peer == 0) row.note = "no peer access: through the host";
  XORBIT_ASSIGN_OR_RETURN(row.times_ms, devices.Time(rounds, [&]() -> Status {
    for (int device = 0; device < count; ++device) {
      const int from = (device + 1) % count;
      XORBIT_RETURN_IF_ERROR(CudaStatus(cudaMemcpyPeerAsync(devices.other(device), device, devices.weights(from), from,
                                                            devices.byte_count(), devices.stream(device)),
                                        "cudaMemcpyPeerAsync"));
    }
    return {};
  }));
  return row;
}

Result<DenseRow> MeasureXor(const Devices& devices, int rounds) {
  DenseRow row{"dense XOR of a ready mask", {}, devices.byte_count(), ""};
  XORBIT_ASSIGN_OR_RETURN(row.times_ms, devices.Time(rounds, [&]() -> Status {
    for (int device = 0; device < devices.count(); ++device) {
      XORBIT_ASSIGN_OR_RETURN(const cuda::CurrentDevice current, cuda::CurrentDevice::Set(device));
      XORBIT_RETURN_IF_ERROR(cuda::testing::LaunchDenseXor(devices.weights(device), devices.other(device), devices.byte_count(),
                                                           devices.stream(device)));
    }
    return {};
  }));
  return row;
}

Result<DenseRow> MeasureNccl(const Devices& devices, int rounds, const std::string& folder) {
  DenseRow row{"dense NCCL broadcast", {}, devices.byte_count(), ""};
  auto nccl = cuda::testing::NcclBroadcaster::Make(folder, devices.count());
  if (!nccl.ok()) {
    row.note = nccl.status().message();
    return row;
  }
  std::vector<void*> targets;
  std::vector<cudaStream_t> streams;
  for (int device = 0; device < devices.count(); ++device) {
    targets.push_back(devices.other(device));
    streams.push_back(devices.stream(device));
  }
  XORBIT_ASSIGN_OR_RETURN(row.times_ms, devices.Time(rounds, [&] {
    return nccl->Broadcast(devices.weights(0), targets, devices.byte_count(), streams);
  }));
  row.note = "NCCL " + std::to_string(nccl->version()) + (devices.count() == 1 ? ": one device, a copy" : "");
  return row;
}

}  // namespace

Result<std::vector<DenseRow>> MeasureDense(int device_count, uint64_t byte_count, int rounds, const std::string& nccl_folder) {
  XORBIT_RETURN_IF_ERROR(cuda::CheckDevices());
  Devices devices;
  XORBIT_RETURN_IF_ERROR(devices.Allocate(device_count, byte_count));
  std::vector<DenseRow> rows(3);
  XORBIT_ASSIGN_OR_RETURN(rows[0], MeasureCopy(devices, rounds));
  XORBIT_ASSIGN_OR_RETURN(rows[1], MeasureXor(devices, rounds));
  XORBIT_ASSIGN_OR_RETURN(rows[2], MeasureNccl(devices, rounds, nccl_folder));
  return rows;
}

}  // namespace xorbit
