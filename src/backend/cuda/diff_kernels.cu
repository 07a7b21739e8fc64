// From two states to a segment's changes in order.
#include "backend/cuda/block_scan.cuh"
#include "backend/cuda/diff_staged.cuh"
#include "backend/cuda/ordered_changes.h"
#include "backend/cuda/send_kernels.h"
#include "backend/cuda/send_launch.cuh"

namespace xorbit::cuda {
namespace {

constexpr uint32_t kDiffBlocksEach = 4;

template <typename Unit>
__global__ void __launch_bounds__(kSendThreads, kDiffBlocksEach) DiffKernel(SendOnDevice send) {
  StoreCursor cursor;
  const uint64_t line_count = send.strip_count * kLinesPerStrip;
  for (uint64_t i = FirstItem(); i < line_count; i += ItemStride()) DiffLine<Unit>(send, i, &cursor);
}

template <typename Unit, uint32_t kStages, uint32_t kBlocksEach>
__global__ void __launch_bounds__(kSendThreads, kBlocksEach) DiffStagedKernel(SendOnDevice send) {
  extern __shared__ uint4 staged[];
  DiffStaged<Unit, kStages>(send, staged);
}

template <typename Unit>
__global__ void __launch_bounds__(kSendThreads) GatherKernel(SendOnDevice send) {
  for (uint64_t i = FirstItem(); i < send.group_count; i += ItemStride()) GatherGroup<Unit>(send, i);
}

__global__ void __launch_bounds__(kSendThreads) GroupSumKernel(SendOnDevice send) {
  for (uint64_t i = FirstItem(); i < send.group_count; i += ItemStride()) SumGroup(send, i);
}

__global__ void __launch_bounds__(kScanBlockThreads) GroupScanKernel(SendOnDevice send) {
  const uint64_t total = BlockScan(
      send.group_count, [&](uint64_t i) { return send.group_starts[i]; },
      [&](uint64_t i, uint64_t sum) { send.group_starts[i] = sum; });
  if (threadIdx.x != 0) return;
  send.group_starts[send.group_count] = total;
  send.counters->change_count = total;
}

__global__ void __launch_bounds__(kSendThreads) WindowCheckKernel(SendOnDevice send, uint64_t window_count) {
  const uint64_t stride = uint64_t{gridDim.x} * kSendThreads;
  for (uint64_t w = uint64_t{blockIdx.x} * kSendThreads + threadIdx.x; w < window_count; w += stride) {
    const uint64_t left = send.element_count - w * kWindowElements;
    const uint64_t elements = left < kWindowElements ? left : kWindowElements;
    if (IsDenseWindow(elements, send.window_counts[w], send.unit_bytes)) send.counters->has_dense_window = 1;
  }
}

// The unordered store still says where each strip's changes came from.
template <typename Unit>
__global__ void __launch_bounds__(kSendThreads) BringForwardKernel(SendOnDevice send) {
  for (uint64_t i = FirstItem(); i < send.strip_count; i += ItemStride()) {
    const Strip strip = send.strips[i];
    for (uint32_t line = 0; line < kLinesPerStrip; ++line) {
      const uint64_t entry = send.lines[i * kLinesPerStrip + line];
      for (uint32_t k = Lane(); k < CountOfLine(entry); k += kWarpLanes) {
        const Change<Unit> change = reinterpret_cast<const Change<Unit>*>(send.stored)[StartOfLine(entry) + k];
        const auto value = static_cast<Unit>(change.old ^ change.bits);
        const uint32_t offset = change.position - static_cast<uint32_t>(strip.first_element);
        auto* const target = reinterpret_cast<uint8_t*>(strip.old_address + offset * uint64_t{sizeof(Unit)});
        if (strip.old_address % sizeof(Unit) == 0) {
          *reinterpret_cast<Unit*>(target) = value;
        } else {
          for (uint32_t b = 0; b < sizeof(Unit); ++b) target[b] = static_cast<uint8_t>(value >> (8 * b));
        }
      }
    }
  }
}

}  // namespace

Status LaunchDiff(const SendOnDevice& send, DiffKind kind, cudaStream_t stream) {
  return WithUnit(send.unit_bytes, [&]<typename Unit>() {
    const char* const name = "the diff";
    const uint64_t line_count = send.strip_count * kLinesPerStrip;
    switch (kind) {
      case DiffKind::kTwoStages:
        return LaunchSend(name, &DiffStagedKernel<Unit, 2, 3>, line_count, 3, StagedBytes(2), stream, send);
      case DiffKind::kThreeStages:
        return LaunchSend(name, &DiffStagedKernel<Unit, 3, 2>, line_count, 2, StagedBytes(3), stream, send);
      default:
        return LaunchSend(name, &DiffKernel<Unit>, line_count, kDiffBlocksEach, 0, stream, send);
    }
  });
}

Status LaunchGroupScan(const SendOnDevice& send, cudaStream_t stream) {
  XORBIT_RETURN_IF_ERROR(LaunchSend("the sums of groups", &GroupSumKernel, send.group_count, 8, 0, stream, send));
  GroupScanKernel<<<1, kScanBlockThreads, 0, stream>>>(send);
  return CudaStatus(cudaGetLastError(), "launch of the scan over groups");
}

Status LaunchGather(const SendOnDevice& send, cudaStream_t stream) {
  return WithUnit(send.unit_bytes, [&]<typename Unit>() {
    return LaunchSend("the gathering of changes", &GatherKernel<Unit>, send.group_count, 8, 0, stream, send);
  });
}

Status LaunchWindowCheck(const SendOnDevice& send, cudaStream_t stream) {
  const uint64_t window_count = WindowCountOf(send.element_count);
  return LaunchSend("the check of windows", &WindowCheckKernel, DivideRoundUp(window_count, uint64_t{kWarpLanes}), 2, 0, stream,
                    send, window_count);
}

Status LaunchBringForward(const SendOnDevice& send, cudaStream_t stream) {
  return WithUnit(send.unit_bytes, [&]<typename Unit>() {
    return LaunchSend("the change of the baseline", &BringForwardKernel<Unit>, send.strip_count, 8, 0, stream, send);
  });
}

}  // namespace xorbit::cuda
