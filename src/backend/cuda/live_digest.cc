#include "backend/cuda/live_digest.h"

#include <algorithm>
#include <vector>

#include "backend/cuda/cuda_memory.h"
#include "backend/cuda/cuda_status.h"
#include "backend/cuda/device.h"
#include "backend/cuda/live_tables.h"
#include "backend/cuda/paced_run.h"
#include "backend/cuda/scan_kernels.h"
#include "backend/cuda/scattered_scan.h"
#include "codec/change_digest.h"
#include "tensor/live_memory.h"
#include "tensor/piece_runs.h"

namespace xorbit::cuda {
namespace {

// Runs of so many bytes are scanned as vectors; shorter ones are too many to list, and are scanned by granule.
constexpr uint64_t kLeastRunBytes = 16384;
constexpr uint64_t kScatteredGranules = 65536;  // of one range

struct ScanPlan {
  LiveTables live;
  std::vector<ScanRange> runs;
  std::vector<ScatteredRange> scattered;
};

void AddScattered(const PieceClass& shape, const Piece& piece, uint64_t region_address, uint64_t key, ScanPlan* plan) {
  const uint64_t count = shape.granule_count();
  for (uint64_t first = 0; first < count; first += kScatteredGranules) {
    plan->scattered.push_back({region_address, key, first, std::min(count, first + kScatteredGranules), piece.origin,
                               piece.live_origin, piece.class_index, 0});
  }
}

void AddRuns(const PieceClass& shape, const Piece& piece, uint64_t region_address, uint64_t key, ScanPlan* plan) {
  const uint64_t granule_bytes = shape.granule_bits / 8;
  ForEachRun(shape, piece, [&](uint64_t canonical, uint64_t live) {
    plan->runs.push_back(
        {region_address + live * granule_bytes, shape.run_length() * granule_bytes, canonical * granule_bytes, key});
  });
}

// What the CPU's live_scan.cc calls counted.
ScanPlan PlanScan(const Layout& layout, const LiveMemory& live, ScanScope scope) {
  const LiveMap& map = *live.map;
  const std::vector<uint64_t> keys = TensorKeysOf(layout);
  ScanPlan plan;
  plan.live = MakeLiveTables(layout, map, PlacesOf(live));
  for (uint32_t i = 0; i < layout.tensors().size(); ++i) {
    const TensorSpec& tensor = layout.tensors()[i];
    if (tensor.byte_count == 0 || map.is_absent(tensor.group) || (scope == ScanScope::kFrozen && !tensor.frozen)) continue;
    const TensorTracks tracks = plan.live.TracksOf(map, i);
    const uint32_t first = plan.live.track_starts[tracks.begin];
    const uint32_t last = plan.live.track_starts[tracks.begin + tracks.count];
    for (const Piece& piece : std::span(plan.live.pieces).subspan(first, last - first)) {
      if (!piece.counted) continue;
      const PieceClass& shape = plan.live.classes[piece.class_index];
      const uint64_t region = plan.live.regions[piece.region_index].begin;
      const bool is_one_run = shape.granule_count() == shape.run_length();
      const bool is_long = is_one_run || shape.run_length() * shape.granule_bits / 8 >= kLeastRunBytes;
      // A thread's loads of granules are aligned or go by bytes; half bytes have no address of their own.
      (is_long && shape.granule_bits >= 8 ? AddRuns : AddScattered)(shape, piece, region, keys[i], &plan);
    }
  }
  return plan;
}

template <typename T>
Result<DeviceBuffer> ToDevice(std::span<const T> values, cudaStream_t stream) {
  XORBIT_ASSIGN_OR_RETURN(DeviceBuffer buffer, DeviceBuffer::Make(values.size_bytes()));
  XORBIT_RETURN_IF_ERROR(
      CudaStatus(cudaMemcpyAsync(buffer.data_dev(), values.data(), values.size_bytes(), cudaMemcpyHostToDevice, stream),
                 "cudaMemcpyAsync of a scan's plan to the device"));
  return buffer;
}

template <typename T>
const T* As(const DeviceBuffer& buffer) {
  return reinterpret_cast<const T*>(buffer.data_dev());
}

}  // namespace

Result<StateDigest> ScanDeviceMemory(const Layout& layout, const LiveMemory& live, ScanScope scope,
                                     const ServingThrottle& throttle, int device) {
  XORBIT_RETURN_IF_ERROR(CheckMemory(layout, live));
  XORBIT_ASSIGN_OR_RETURN(const CurrentDevice current, CurrentDevice::Set(device));
  XORBIT_ASSIGN_OR_RETURN(const Stream stream, MakeStream());
  const ScanPlan plan = PlanScan(layout, live, scope);
  const std::vector<ScanRange> pieces = CutScanRanges(plan.runs);
  StateDigest digest;
  XORBIT_ASSIGN_OR_RETURN(const DeviceBuffer pieces_dev, ToDevice(std::span(pieces), stream.get()));
  XORBIT_ASSIGN_OR_RETURN(const DeviceBuffer scattered_dev, ToDevice(std::span(plan.scattered), stream.get()));
  XORBIT_ASSIGN_OR_RETURN(const DeviceBuffer classes_dev,
                          ToDevice(std::span<const PieceClass>(plan.live.classes), stream.get()));
  XORBIT_ASSIGN_OR_RETURN(const DeviceBuffer digest_dev, ToDevice(std::span<const StateDigest>(&digest, 1), stream.get()));
  auto* sum_dev = reinterpret_cast<StateDigest*>(digest_dev.data_dev());
  const auto scan = [&](uint64_t begin, uint64_t end) {
    return LaunchScan(As<ScanRange>(pieces_dev) + begin, end - begin, 2, throttle.blocks, sum_dev, stream.get());
  };
  const auto scan_scattered = [&](uint64_t begin, uint64_t end) {
    return LaunchScatteredScan(As<ScatteredRange>(scattered_dev) + begin, end - begin, As<PieceClass>(classes_dev),
                               throttle.blocks, sum_dev, stream.get());
  };
  XORBIT_RETURN_IF_ERROR(RunPaced(pieces.size(), throttle, stream.get(), scan));
  XORBIT_RETURN_IF_ERROR(RunPaced(plan.scattered.size(), throttle, stream.get(), scan_scattered));
  XORBIT_RETURN_IF_ERROR(CudaStatus(cudaMemcpyAsync(&digest, sum_dev, sizeof(digest), cudaMemcpyDeviceToHost, stream.get()),
                                    "cudaMemcpyAsync of a digest"));
  XORBIT_RETURN_IF_ERROR(
      CudaStatus(cudaStreamSynchronize(stream.get()), "cudaStreamSynchronize (the scan before it may have failed)"));
  return digest;
}

}  // namespace xorbit::cuda
