#include "backend/cuda/testing/bench_kernels.h"

#include "backend/cuda/cuda_status.h"
#include "backend/cuda/warp.h"

namespace xorbit::cuda::testing {
namespace {

constexpr uint32_t kThreads = 256;
constexpr uint32_t kBlocks = 132 * 8;

__device__ __forceinline__ Cell CellOf(const ChangeFormula& formula, uint64_t cell, bool changed) {
  Cell bytes = OldCell(formula, cell);
  if (!changed) return bytes;
  const Cell change = ChangeOfCell(formula, cell);
  for (uint32_t i = 0; i < 4; ++i) bytes.words[i] ^= change.words[i];
  return bytes;
}

// visit(address, cell) for every cell of every piece.
template <typename Visit>
__device__ __forceinline__ void ForEachCell(const FormulaPiece* pieces, uint64_t piece_count, Visit&& visit) {
  for (uint64_t i = blockIdx.x; i < piece_count; i += gridDim.x) {
    const FormulaPiece piece = pieces[i];
    for (uint64_t at = threadIdx.x * kCellBytes; at < piece.byte_count; at += kThreads * kCellBytes) {
      visit(piece.address + at, (piece.first_byte + at) / kCellBytes);
    }
  }
}

__global__ void FillKernel(const FormulaPiece* pieces, uint64_t piece_count, ChangeFormula formula, bool changed) {
  ForEachCell(pieces, piece_count, [&](uint64_t address, uint64_t cell) {
    const Cell bytes = CellOf(formula, cell, changed);
    *reinterpret_cast<uint4*>(address) = make_uint4(bytes.words[0], bytes.words[1], bytes.words[2], bytes.words[3]);
  });
}

__global__ void VerifyKernel(const FormulaPiece* pieces, uint64_t piece_count, ChangeFormula formula, bool changed,
                             Mismatches* mismatches) {
  uint64_t wrong = 0;
  uint64_t first = ~uint64_t{0};
  ForEachCell(pieces, piece_count, [&](uint64_t address, uint64_t cell) {
    const Cell want = CellOf(formula, cell, changed);
    const uint4 got = *reinterpret_cast<const uint4*>(address);
    const uint32_t words[4] = {got.x, got.y, got.z, got.w};
    for (uint32_t b = 0; b < kCellBytes; ++b) {
      if (((words[b / 4] ^ want.words[b / 4]) >> (8 * (b % 4)) & 0xff) == 0) continue;
      ++wrong;
      if (cell * kCellBytes + b < first) first = cell * kCellBytes + b;
    }
  });
  if (wrong == 0) return;
  AtomicAdd(&mismatches->byte_count, wrong);
  AtomicMin(&mismatches->first_byte, first);
}

// visit(index of a 16-byte vector), four at a time.
template <typename Load, typename Use>
__device__ __forceinline__ void ForEachVector(uint64_t count, Load&& load, Use&& use) {
  constexpr uint32_t kAtOnce = 4;
  const uint64_t stride = uint64_t{gridDim.x} * kThreads;
  uint64_t i = uint64_t{blockIdx.x} * kThreads + threadIdx.x;
  for (; i + (kAtOnce - 1) * stride < count; i += kAtOnce * stride) {
    decltype(load(i)) loaded[kAtOnce];
#pragma unroll
    for (uint32_t j = 0; j < kAtOnce; ++j) loaded[j] = load(i + j * stride);
#pragma unroll
    for (uint32_t j = 0; j < kAtOnce; ++j) use(i + j * stride, loaded[j]);
  }
  for (; i < count; i += stride) use(i, load(i));
}

__global__ void __launch_bounds__(kThreads) ReadKernel(const uint4* from, uint64_t count, uint64_t* sink) {
  uint32_t sum = 0;
  ForEachVector(
      count, [&](uint64_t i) { return __ldcs(from + i); }, [&](uint64_t, uint4 v) { sum += v.x ^ v.y ^ v.z ^ v.w; });
  if (sum == 0x12345678) AtomicAdd(sink, sum);
}

__global__ void __launch_bounds__(kThreads) CopyKernel(uint4* to, const uint4* from, uint64_t count) {
  ForEachVector(
      count, [&](uint64_t i) { return __ldcs(from + i); }, [&](uint64_t i, uint4 v) { __stcs(to + i, v); });
}

__global__ void __launch_bounds__(kThreads) StreamKernel(uint4* live, uint64_t count, uint32_t bits) {
  ForEachVector(
      count, [&](uint64_t i) { return live[i]; },
      [&](uint64_t i, uint4 v) { live[i] = make_uint4(v.x ^ bits, v.y ^ bits, v.z ^ bits, v.w ^ bits); });
}

struct VectorPair {
  uint4 live;
  uint4 mask;
};

__global__ void __launch_bounds__(kThreads) DenseXorKernel(uint4* live, const uint4* mask, uint64_t count) {
  ForEachVector(
      count,
      [&](uint64_t i) {
        return VectorPair{live[i], __ldcs(mask + i)};
      },
      [&](uint64_t i, VectorPair v) {
        live[i] = make_uint4(v.live.x ^ v.mask.x, v.live.y ^ v.mask.y, v.live.z ^ v.mask.z, v.live.w ^ v.mask.w);
      });
}

Status Launched(const char* name) { return CudaStatus(cudaGetLastError(), name); }
const uint4* Vectors(const uint8_t* bytes) { return reinterpret_cast<const uint4*>(bytes); }
uint4* Vectors(uint8_t* bytes) { return reinterpret_cast<uint4*>(bytes); }

}  // namespace

Status LaunchFill(const FormulaPiece* pieces_dev, uint64_t piece_count, const ChangeFormula& formula, bool changed,
                  cudaStream_t stream) {
  FillKernel<<<kBlocks, kThreads, 0, stream>>>(pieces_dev, piece_count, formula, changed);
  return Launched("launch of the fill");
}
Status LaunchVerify(const FormulaPiece* pieces_dev, uint64_t piece_count, const ChangeFormula& formula, bool changed,
                    Mismatches* mismatches_dev, cudaStream_t stream) {
  VerifyKernel<<<kBlocks, kThreads, 0, stream>>>(pieces_dev, piece_count, formula, changed, mismatches_dev);
  return Launched("launch of the verification");
}
Status LaunchRead(const uint8_t* from_dev, uint64_t byte_count, uint64_t* sink_dev, cudaStream_t stream) {
  ReadKernel<<<kBlocks, kThreads, 0, stream>>>(Vectors(from_dev), byte_count / 16, sink_dev);
  return Launched("launch of the read-only kernel");
}
Status LaunchCopy(uint8_t* to_dev, const uint8_t* from_dev, uint64_t byte_count, cudaStream_t stream) {
  CopyKernel<<<kBlocks, kThreads, 0, stream>>>(Vectors(to_dev), Vectors(from_dev), byte_count / 16);
  return Launched("launch of the copy kernel");
}
Status LaunchDenseXor(uint8_t* live_dev, const uint8_t* mask_dev, uint64_t byte_count, cudaStream_t stream) {
  DenseXorKernel<<<kBlocks, kThreads, 0, stream>>>(Vectors(live_dev), Vectors(mask_dev), byte_count / 16);
  return Launched("launch of the dense XOR");
}
Status LaunchStream(uint8_t* live_dev, uint64_t byte_count, uint32_t bits, cudaStream_t stream) {
  StreamKernel<<<kBlocks, kThreads, 0, stream>>>(Vectors(live_dev), byte_count / 16, bits);
  return Launched("launch of the streaming kernel");
}

}  // namespace xorbit::cuda::testing
