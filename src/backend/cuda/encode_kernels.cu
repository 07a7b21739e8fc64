// From the changes that a diff found to a segment's body.
#include "backend/cuda/chunk_scan.cuh"
#include "backend/cuda/gather_tile.h"
#include "backend/cuda/pack_tile.h"
#include "backend/cuda/send_kernels.h"
#include "backend/cuda/send_launch.cuh"

namespace xorbit::cuda {
namespace {

// As many as registers suffice for.
constexpr uint32_t kSurveyBlocksEach = 4;
constexpr uint32_t kEncodeBlocksEach = 4;

// Tiles that were planned may be dense, and have tables of their own then; others are put in order first.
template <typename Unit, bool kPlanned>
__global__ void __launch_bounds__(kSendThreads, kSurveyBlocksEach) SurveyKernel(SendOnDevice send) {
  constexpr uint32_t kCounts = (1 + (kPlanned ? 2 : 1) * sizeof(Unit)) * kValueSymbols;
  __shared__ uint32_t counts[kCounts];
  __shared__ uint64_t word_factors[kWordFactorCount];
  for (uint32_t i = threadIdx.x; i < kCounts; i += kSendThreads) counts[i] = 0;
  if (threadIdx.x < kWordFactorCount) word_factors[threadIdx.x] = WordFactorAt(threadIdx.x);
  __syncthreads();
  const SymbolCounts block_counts(counts);
  const uint64_t tile_count = TileCountOf(send);
  for (uint64_t i = FirstItem(); i < tile_count; i += ItemStride()) {
    if constexpr (kPlanned) {
      SurveyTile<Unit>(send, i, block_counts, word_factors);
    } else {
      GatherTile<Unit>(send, i, block_counts, word_factors);
    }
  }
  __syncthreads();
  for (uint32_t i = threadIdx.x; i < kCounts; i += kSendThreads) {
    if (counts[i] != 0) AtomicAdd(&send.histograms->counts[0][0] + i, uint64_t{counts[i]});
  }
}

template <typename Unit>
__global__ void __launch_bounds__(kSendThreads, kEncodeBlocksEach) EncodeKernel(SendOnDevice send) {
  extern __shared__ SendTable tables[];
  __shared__ EncodeWarpMemory warps[kSendWarps];
  const auto entry_count = send.tables.table_count * static_cast<uint32_t>(sizeof(SendTable) / sizeof(SendTable::Entry));
  for (uint32_t i = threadIdx.x; i < entry_count; i += kSendThreads) {
    reinterpret_cast<uint64_t*>(tables)[i] = reinterpret_cast<const uint64_t*>(send.tables.tables)[i];
  }
  __syncthreads();
  const uint64_t tile_count = TileCountOf(send);
  for (uint64_t i = FirstItem(); i < tile_count; i += ItemStride()) {
    EncodeTile<Unit>(send, i, tables, &warps[threadIdx.x / kWarpLanes]);
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

// One chunk of tiles a block.
__global__ void __launch_bounds__(kScanChunk) TileSumKernel(SendOnDevice send) {
  const uint64_t tile = uint64_t{blockIdx.x} * kScanChunk + threadIdx.x;
  const bool exists = tile < TileCountOf(send);
  uint64_t total = 0;
  const uint64_t before = SumBefore(exists ? send.codes[tile].byte_count : 0, &total);
  if (exists) send.records[tile].offset = before;
  if (threadIdx.x == 0) send.chunk_sums[blockIdx.x] = total;
}

__global__ void __launch_bounds__(kScanChunk) TileStartKernel(SendOnDevice send) {
  const uint64_t before = SumOfChunks(send.chunk_sums, blockIdx.x);
  const uint64_t tile = uint64_t{blockIdx.x} * kScanChunk + threadIdx.x;
  if (tile < TileCountOf(send)) send.records[tile].offset += before;
  if (blockIdx.x + 1 == gridDim.x && threadIdx.x == 0) send.counters->body_bytes = before + send.chunk_sums[blockIdx.x];
}

}  // namespace

Status LaunchGather(const SendOnDevice& send, cudaStream_t stream) {
  return WithUnit(send.unit_bytes, [&]<typename Unit>() {
    return LaunchSend("the gathering of changes", &SurveyKernel<Unit, false>, send.tile_capacity, kSurveyBlocksEach, 0, stream,
                      send);
  });
}

Status LaunchSurvey(const SendOnDevice& send, cudaStream_t stream) {
  return WithUnit(send.unit_bytes, [&]<typename Unit>() {
    return LaunchSend("the survey of tiles", &SurveyKernel<Unit, true>, send.tile_capacity, kSurveyBlocksEach, 0, stream, send);
  });
}

Status LaunchEncode(const SendOnDevice& send, cudaStream_t stream) {
  const auto table_bytes = send.tables.table_count * static_cast<uint32_t>(sizeof(SendTable));
  return WithUnit(send.unit_bytes, [&]<typename Unit>() {
    return LaunchSend("the encoder", &EncodeKernel<Unit>, send.tile_capacity, kEncodeBlocksEach, table_bytes, stream, send);
  });
}

Status LaunchTileScan(const SendOnDevice& send, cudaStream_t stream) {
  const auto chunks = static_cast<uint32_t>(DivideRoundUp(send.tile_capacity, uint64_t{kScanChunk}));
  if (chunks == 0) return {};
  TileSumKernel<<<chunks, kScanChunk, 0, stream>>>(send);
  XORBIT_RETURN_IF_ERROR(CudaStatus(cudaGetLastError(), "launch of the sums of tiles"));
  TileStartKernel<<<chunks, kScanChunk, 0, stream>>>(send);
  return CudaStatus(cudaGetLastError(), "launch of the starts of tiles");
}

Status LaunchPack(const SendOnDevice& send, cudaStream_t stream) {
  return WithUnit(send.unit_bytes, [&]<typename Unit>() {
    return LaunchSend("the packing of tiles", &PackKernel<Unit>, send.tile_capacity, 8, 0, stream, send);
  });
}

}  // namespace xorbit::cuda
