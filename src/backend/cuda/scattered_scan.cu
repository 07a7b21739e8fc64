// A thread takes one granule at a time; neighbours take neighbours, which mostly lie together.
#include <algorithm>

#include "backend/cuda/cuda_status.h"
#include "backend/cuda/live_access.h"
#include "backend/cuda/live_place.h"
#include "backend/cuda/scattered_scan.h"

namespace xorbit::cuda {
namespace {

constexpr uint32_t kScatteredThreads = 256;

struct GranulePair {
  uint64_t canonical;
  uint64_t live;
};

__device__ __forceinline__ GranulePair GranuleAt(const ScatteredRange& range, const PieceClass& shape, uint64_t index) {
  GranulePair at{range.origin, range.live_origin};
  for (uint32_t i = shape.digit_count; i-- > 0;) {
    const LiveDigit& digit = shape.digits[i];
    at.canonical += index % digit.count * digit.canonical_stride;
    at.live += index % digit.count * digit.live_stride;
    index /= digit.count;
  }
  return at;
}

template <typename Unit>
__device__ __forceinline__ void AddGranule(uint64_t key, uint64_t tensor_byte, Unit bits, const uint64_t* word_factors,
                                           StateDigest* sum) {
  const ElementWeight<Unit> weight(key, tensor_byte, word_factors);
  sum->lane0 += weight.Lane0(bits);
  sum->lane1 += weight.Lane1(bits);
}

__device__ void AddRange(const ScatteredRange& range, const PieceClass& shape, const uint64_t* word_factors, StateDigest* sum) {
  const uint32_t bits = shape.granule_bits;
  for (uint64_t index = range.first + threadIdx.x; index < range.end; index += kScatteredThreads) {
    const GranulePair at = GranuleAt(range, shape, index);
    const uint64_t address = range.region_address + at.live * bits / 8;
    const uint64_t byte = at.canonical * bits / 8;
    if (bits == 4) {
      const uint32_t half = LoadElement<uint8_t>(address) >> (at.live % 2 * 4) & 15;
      AddGranule(range.tensor_key, byte, static_cast<uint8_t>(half << (at.canonical % 2 * 4)), word_factors, sum);
    } else if (bits == 8) {
      AddGranule(range.tensor_key, byte, LoadElement<uint8_t>(address), word_factors, sum);
    } else if (bits == 16) {
      AddGranule(range.tensor_key, byte, LoadElement<uint16_t>(address), word_factors, sum);
    } else if (bits == 32) {
      AddGranule(range.tensor_key, byte, LoadElement<uint32_t>(address), word_factors, sum);
    } else {
      AddGranule(range.tensor_key, byte, LoadElement<uint64_t>(address), word_factors, sum);
    }
  }
}

__global__ void __launch_bounds__(kScatteredThreads)
    ScatteredScanKernel(const ScatteredRange* ranges, uint64_t range_count, const PieceClass* classes, StateDigest* digest) {
  __shared__ uint64_t word_factors[kWordFactorCount];
  if (threadIdx.x < kWordFactorCount) word_factors[threadIdx.x] = WordFactorAt(threadIdx.x);
  __syncthreads();
  StateDigest sum;
  for (uint64_t i = blockIdx.x; i < range_count; i += gridDim.x) {
    AddRange(ranges[i], classes[ranges[i].class_index], word_factors, &sum);
  }
  const uint64_t lane0 = WarpSum(sum.lane0);
  const uint64_t lane1 = WarpSum(sum.lane1);
  if (Lane() != 0) return;
  AtomicAdd(&digest->lane0, lane0);
  AtomicAdd(&digest->lane1, lane1);
}

}  // namespace

Status LaunchScatteredScan(const ScatteredRange* ranges_dev, uint64_t range_count, const PieceClass* classes_dev,
                           uint32_t most_blocks, StateDigest* digest_dev, cudaStream_t stream) {
  if (range_count == 0) return {};
  constexpr uint32_t kManyBlocks = 2048;  // more than any device holds at once
  const auto blocks = static_cast<uint32_t>(std::min<uint64_t>(range_count, most_blocks > 0 ? most_blocks : kManyBlocks));
  ScatteredScanKernel<<<blocks, kScatteredThreads, 0, stream>>>(ranges_dev, range_count, classes_dev, digest_dev);
  return CudaStatus(cudaGetLastError(), "launch of the scan of scattered granules");
}

}  // namespace xorbit::cuda
