// From ordered changes to a segment's body.
#include "backend/cuda/block_scan.cuh"
#include "backend/cuda/count_tile.h"
#include "backend/cuda/pack_tile.h"
#include "backend/cuda/send_kernels.h"
#include "backend/cuda/send_launch.cuh"

namespace xorbit::cuda {
namespace {

// Eight warps with the tables of a segment, of which shared memory holds several blocks, and registers no more.
constexpr uint32_t kEncodeBlocksEach = 4;
constexpr uint32_t kCountBlocksEach = 8;

template <typename Unit>
__global__ void __launch_bounds__(kSendThreads) CountKernel(SendOnDevice send) {
  constexpr uint32_t kCounts = (1 + 2 * sizeof(Unit)) * kValueSymbols;
  __shared__ uint32_t counts[kCounts];
  for (uint32_t i = threadIdx.x; i < kCounts; i += kSendThreads) counts[i] = 0;
  __syncthreads();
  const uint64_t tile_count = TileCountOf(send);
  for (uint64_t i = FirstItem(); i < tile_count; i += ItemStride()) CountTile<Unit>(send, i, counts);
  __syncthreads();
  for (uint32_t i = threadIdx.x; i < kCounts; i += kSendThreads) {
    if (counts[i] != 0) AtomicAdd(&send.histograms->counts[0][0] + i, uint64_t{counts[i]});
  }
}

template <typename Unit>
__global__ void __launch_bounds__(kSendThreads, kEncodeBlocksEach) EncodeKernel(SendOnDevice send) {
  extern __shared__ EncodeTable tables[];
  __shared__ uint64_t word_factors[kWordFactorCount];
  __shared__ EncodeWarpMemory warps[kSendWarps];
  if (threadIdx.x < kWordFactorCount) word_factors[threadIdx.x] = WordFactorAt(threadIdx.x);
  const uint32_t table_words = send.tables.table_count * static_cast<uint32_t>(sizeof(EncodeTable) / 4);
  for (uint32_t i = threadIdx.x; i < table_words; i += kSendThreads) {
    reinterpret_cast<uint32_t*>(tables)[i] = reinterpret_cast<const uint32_t*>(send.tables.tables)[i];
  }
  __syncthreads();
  const uint64_t tile_count = TileCountOf(send);
  EncodeWarpMemory* const memory = &warps[threadIdx.x / kWarpLanes];
  for (uint64_t i = FirstItem(); i < tile_count; i += ItemStride()) {
    EncodeTile<Unit>(send, i, tables, word_factors, memory);
    SyncWarp();
  }
}

template <typename Unit>
__global__ void __launch_bounds__(kSendThreads) PackKernel(SendOnDevice send) {
  __shared__ EncodeWarpMemory warps[kSendWarps];
  const uint64_t tile_count = TileCountOf(send);
  for (uint64_t i = FirstItem(); i < tile_count; i += ItemStride()) {
    PackTile<Unit>(send, i, &warps[threadIdx.x / kWarpLanes]);
    SyncWarp();
  }
}

__global__ void __launch_bounds__(kScanBlockThreads) TileScanKernel(SendOnDevice send) {
  const uint64_t total = BlockScan(
      TileCountOf(send), [&](uint64_t i) { return uint64_t{send.codes[i].byte_count}; },
      [&](uint64_t i, uint64_t sum) { send.records[i].offset = sum; });
  if (threadIdx.x == 0) send.counters->body_bytes = total;
}

}  // namespace

Status LaunchCount(const SendOnDevice& send, cudaStream_t stream) {
  return WithUnit(send.unit_bytes, [&]<typename Unit>() {
    return LaunchSend("the count of symbols", &CountKernel<Unit>, send.tile_capacity, kCountBlocksEach, 0, stream, send);
  });
}

Status LaunchEncode(const SendOnDevice& send, cudaStream_t stream) {
  const auto table_bytes = send.tables.table_count * static_cast<uint32_t>(sizeof(EncodeTable));
  return WithUnit(send.unit_bytes, [&]<typename Unit>() {
    return LaunchSend("the encoder", &EncodeKernel<Unit>, send.tile_capacity, kEncodeBlocksEach, table_bytes, stream, send);
  });
}

Status LaunchTileScan(const SendOnDevice& send, cudaStream_t stream) {
  TileScanKernel<<<1, kScanBlockThreads, 0, stream>>>(send);
  return CudaStatus(cudaGetLastError(), "launch of the scan over tiles");
}

Status LaunchPack(const SendOnDevice& send, cudaStream_t stream) {
  return WithUnit(send.unit_bytes, [&]<typename Unit>() {
    return LaunchSend("the packing of tiles", &PackKernel<Unit>, send.tile_capacity, 8, 0, stream, send);
  });
}

}  // namespace xorbit::cuda
