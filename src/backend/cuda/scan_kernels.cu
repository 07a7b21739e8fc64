// One block scans one piece at a time, 16 bytes a load and four loads a thread in flight.
//
// Four neighbouring lanes hold the 64 bytes of a digest block. With four loads a thread, they hold four blocks: each lane mixes
// the index of one of them and hands its factor to the other three, which takes a third of the instructions away.
#include <algorithm>
#include <string>

#include "backend/cuda/cuda_status.h"
#include "backend/cuda/live_place.h"
#include "backend/cuda/scan_kernels.h"

namespace xorbit::cuda {
namespace {

constexpr uint32_t kScanThreads = 256;
constexpr uint32_t kLoads = 4;
constexpr uint64_t kPieceBytes = uint64_t{256} << 10;  // a multiple of what a block reads in one round

// A piece widened to begin with a digest block; what lies before `skip_bytes` does not count.
struct WidePiece {
  uint64_t address;
  uint64_t byte_count;
  uint64_t block_index;  // of the first byte
  uint64_t skip_bytes;
};

// Sixteen bytes of a piece, zeros outside it; from any address. Rare, and a call, so that the vectors of the other loads stay
// in registers.
XORBIT_DEVICE_RARE uint4 LoadByBytes(uint64_t address, uint64_t at, uint64_t skip_bytes, uint64_t byte_count) {
  uint32_t words[4] = {0, 0, 0, 0};
#pragma unroll
  for (uint32_t i = 0; i < kVectorBytes; ++i) {
    if (at + i < skip_bytes || at + i >= byte_count) continue;
    words[i / 4] |= uint32_t{*reinterpret_cast<const uint8_t*>(address + at + i)} << (8 * (i % 4));
  }
  return make_uint4(words[0], words[1], words[2], words[3]);
}

__device__ __forceinline__ uint4 LoadVector(const WidePiece& piece, uint64_t at) {
  const bool whole = piece.address % kVectorBytes == 0 && at >= piece.skip_bytes && at + kVectorBytes <= piece.byte_count;
  if (whole) return __ldcs(reinterpret_cast<const uint4*>(piece.address + at));
  if (at >= piece.byte_count) return make_uint4(0, 0, 0, 0);
  return LoadByBytes(piece.address, at, piece.skip_bytes, piece.byte_count);
}

struct LaneFactors {
  uint64_t of_word[2][4];  // g of the four words that this lane reads of a block
};

template <uint32_t kLaneCount>
__device__ __forceinline__ void ScanPiece(const ScanRange& range, const LaneFactors& factors, uint64_t (&sums)[2]) {
  const uint64_t skip_bytes = range.tensor_byte % kDigestBlockBytes;
  const WidePiece piece{range.address - skip_bytes, range.byte_count + skip_bytes, range.tensor_byte / kDigestBlockBytes,
                        skip_bytes};
  const uint32_t quarter = threadIdx.x % 4;
  constexpr uint64_t kRoundBytes = uint64_t{kScanThreads} * kLoads * kVectorBytes;
  for (uint64_t round = 0; round < piece.byte_count; round += kRoundBytes) {
    uint4 words[kLoads];
    // The same for the whole block, so that nothing stands between the loads of a full round.
    const bool full = piece.address % kVectorBytes == 0 && round >= skip_bytes && round + kRoundBytes <= piece.byte_count;
    const uint64_t first = round + uint64_t{threadIdx.x} * kVectorBytes;
    if (full) {
      const auto* from = reinterpret_cast<const uint4*>(piece.address + first);
#pragma unroll
      for (uint32_t j = 0; j < kLoads; ++j) words[j] = __ldcs(from + j * kScanThreads);
    } else {
#pragma unroll
      for (uint32_t j = 0; j < kLoads; ++j) words[j] = LoadVector(piece, first + uint64_t{j} * kScanThreads * kVectorBytes);
    }
    // The block that this lane's load `quarter` is part of.
    const uint64_t own_at = round + (uint64_t{quarter} * kScanThreads + threadIdx.x) * kVectorBytes;
    const uint64_t own = SplitMix64(range.tensor_key ^ (piece.block_index + own_at / kDigestBlockBytes));
#pragma unroll
    for (uint32_t j = 0; j < kLoads; ++j) {
      const uint64_t h = __shfl_sync(kAllLanes, own, j, 4);
      const uint32_t u[4] = {words[j].x, words[j].y, words[j].z, words[j].w};
#pragma unroll
      for (uint32_t lane = 0; lane < kLaneCount; ++lane) {
        uint64_t inner = 0;
#pragma unroll
        for (uint32_t k = 0; k < 4; ++k) inner += factors.of_word[lane][k] * u[k];
        sums[lane] += ((lane == 0 ? h : h << 32 | h >> 32) | 1) * inner;
      }
    }
  }
}

template <uint32_t kLaneCount>
__global__ void __launch_bounds__(kScanThreads) ScanKernel(const ScanRange* pieces, uint64_t piece_count, StateDigest* digest) {
  LaneFactors factors;
#pragma unroll
  for (uint32_t i = 0; i < 8; ++i)
    factors.of_word[i / 4][i % 4] = WordFactorAt(kDigestWordsPerBlock * (i / 4) + 4 * (threadIdx.x % 4) + i % 4);
  uint64_t sums[2] = {0, 0};
  for (uint64_t i = blockIdx.x; i < piece_count; i += gridDim.x) ScanPiece<kLaneCount>(pieces[i], factors, sums);
#pragma unroll
  for (uint32_t lane = 0; lane < kLaneCount; ++lane) {
    const uint64_t sum = WarpSum(sums[lane]);
    if (Lane() == 0) AtomicAdd(lane == 0 ? &digest->lane0 : &digest->lane1, sum);
  }
}

}  // namespace

std::vector<ScanRange> CutScanRanges(std::span<const ScanRange> ranges) {
  std::vector<ScanRange> pieces;
  for (const ScanRange& range : ranges) {
    for (uint64_t at = 0; at < range.byte_count;) {
      // The first piece ends where a digest block does, so that all others begin with one.
      const uint64_t in_block = (range.tensor_byte + at) % kDigestBlockBytes;
      const uint64_t count = std::min(range.byte_count - at, in_block == 0 ? kPieceBytes : kDigestBlockBytes - in_block);
      pieces.push_back({range.address + at, count, range.tensor_byte + at, range.tensor_key});
      at += count;
    }
  }
  return pieces;
}

Status LaunchScan(const ScanRange* pieces_dev, uint64_t piece_count, uint32_t lane_count, uint32_t most_blocks,
                  StateDigest* digest_dev, cudaStream_t stream) {
  if (piece_count == 0) return {};
  int device = 0;
  int multiprocessors = 0;
  XORBIT_RETURN_IF_ERROR(CudaStatus(cudaGetDevice(&device), "cudaGetDevice"));
  XORBIT_RETURN_IF_ERROR(CudaStatus(cudaDeviceGetAttribute(&multiprocessors, cudaDevAttrMultiProcessorCount, device),
                                    "cudaDeviceGetAttribute of the multiprocessor count"));
  constexpr uint32_t kBlocksEach = 8;
  const uint64_t most = most_blocks > 0 ? most_blocks : uint64_t{kBlocksEach} * static_cast<uint32_t>(multiprocessors);
  const auto blocks = static_cast<uint32_t>(std::min(piece_count, most));
  if (lane_count == 1) {
    ScanKernel<1><<<blocks, kScanThreads, 0, stream>>>(pieces_dev, piece_count, digest_dev);
  } else {
    ScanKernel<2><<<blocks, kScanThreads, 0, stream>>>(pieces_dev, piece_count, digest_dev);
  }
  return CudaStatus(cudaGetLastError(), "launch of the digest scan");
}

}  // namespace xorbit::cuda
