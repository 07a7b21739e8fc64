// From two states to a segment's changes.
#include "backend/cuda/chunk_scan.cuh"
#include "backend/cuda/diff_staged.cuh"
#include "backend/cuda/group_sums.h"
#include "backend/cuda/ordered_changes.h"
#include "backend/cuda/send_kernels.h"
#include "backend/cuda/send_launch.cuh"

namespace xorbit::cuda {
namespace {

// Three stages of two blocks fill shared memory.
constexpr uint32_t kDiffStages = 3;
constexpr uint32_t kDiffBlocksEach = 2;

template <typename Unit, typename Sums>
__global__ void __launch_bounds__(kSendThreads, kDiffBlocksEach) DiffKernel(SendOnDevice send, StripRange range) {
  extern __shared__ uint4 staged[];
  DiffStaged<Unit, Sums, kDiffStages>(send, range, staged);
}

// One chunk of groups a block, which has as many warps as it can: each waits for memory, one group after the other.
constexpr uint32_t kGroupSumThreads = 1024;
__global__ void __launch_bounds__(kGroupSumThreads) GroupSumKernel(SendOnDevice send) {
  __shared__ uint64_t sums[kScanChunk];
  const uint64_t first = uint64_t{blockIdx.x} * kScanChunk;
  for (uint32_t i = threadIdx.x / kWarpLanes; i < kScanChunk; i += kGroupSumThreads / kWarpLanes) {
    const uint64_t sum = first + i < send.group_count ? SumGroup(send, first + i) : 0;
    if (Lane() == 0) sums[i] = sum;
  }
  __syncthreads();
  uint64_t total = 0;
  const bool exists = threadIdx.x < kScanChunk;
  const uint64_t before = SumBefore<kGroupSumThreads>(exists ? sums[threadIdx.x] : 0, &total);
  if (exists && first + threadIdx.x < send.group_count) send.group_starts[first + threadIdx.x] = before;
  if (threadIdx.x == 0) send.chunk_sums[blockIdx.x] = total;
}

__global__ void __launch_bounds__(kScanChunk) GroupStartKernel(SendOnDevice send) {
  const uint64_t before = SumOfChunks(send.chunk_sums, blockIdx.x);
  const uint64_t group = uint64_t{blockIdx.x} * kScanChunk + threadIdx.x;
  if (group < send.group_count) send.group_starts[group] += before;
  if (blockIdx.x + 1 < gridDim.x || threadIdx.x != 0) return;
  const uint64_t total = before + send.chunk_sums[blockIdx.x];
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
        const Change<Unit> change = LoadChange<Unit>(send.stored, StartOfLine(entry) + k).change();
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

Status LaunchDiff(const SendOnDevice& send, const StripRange& range, bool with_base, cudaStream_t stream) {
  return WithUnit(send.unit_bytes, [&]<typename Unit>() {
    auto* const kernel = with_base ? &DiffKernel<Unit, BaseSums> : &DiffKernel<Unit, NoBaseSums>;
    return LaunchSend("the diff", kernel, (range.end - range.first) * kLinesPerStrip, kDiffBlocksEach, StagedBytes(kDiffStages),
                      stream, send, range);
  });
}

Status LaunchGroupScan(const SendOnDevice& send, cudaStream_t stream) {
  const auto chunks = static_cast<uint32_t>(DivideRoundUp(send.group_count, uint64_t{kScanChunk}));
  if (chunks == 0) return {};
  GroupSumKernel<<<chunks, kGroupSumThreads, 0, stream>>>(send);
  XORBIT_RETURN_IF_ERROR(CudaStatus(cudaGetLastError(), "launch of the sums of groups"));
  GroupStartKernel<<<chunks, kScanChunk, 0, stream>>>(send);
  return CudaStatus(cudaGetLastError(), "launch of the starts of groups");
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
