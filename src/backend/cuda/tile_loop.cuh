// How a grid goes through all tiles of an update, whatever their segments: blocks take items in turn, and copy a segment's
// tables into shared memory when their next item belongs to another segment than the one before.
#pragma once

#include "backend/cuda/tile_tasks.h"

namespace xorbit::cuda {

inline constexpr uint32_t kThreadsPerBlock = kWarpsPerBlock * kWarpLanes;

// Once a block; needs update.table_bytes of dynamic shared memory. body(task) is called by all lanes of a warp.
template <typename Body>
__device__ __forceinline__ void ForEachTile(const UpdateOnDevice& update, Body&& body) {
  extern __shared__ SymbolTable tables[];
  __shared__ uint64_t word_factors[kWordFactorCount];
  __shared__ SegmentOnDevice segment;
  if (threadIdx.x < kWordFactorCount) word_factors[threadIdx.x] = WordFactorAt(threadIdx.x);
  // From lane 0, so that the compiler knows it to be the same in all lanes, and with it everything that follows from it.
  const uint64_t warp = ShuffleFrom(threadIdx.x / kWarpLanes, 0);
  uint64_t segment_index = 0;
  bool is_loaded = false;
  for (uint64_t item = blockIdx.x; item < update.item_count; item += gridDim.x) {
    while (update.segments[segment_index + 1].first_item <= item) {
      ++segment_index;
      is_loaded = false;
    }
    if (!is_loaded) {
      __syncthreads();  // the segment before is not needed any more
      if (threadIdx.x == 0) segment = update.segments[segment_index];
      __syncthreads();
      const auto* from = reinterpret_cast<const uint4*>(segment.tables);
      const uint32_t count = segment.table_count * static_cast<uint32_t>(sizeof(SymbolTable) / sizeof(uint4));
      for (uint32_t i = threadIdx.x; i < count; i += kThreadsPerBlock) reinterpret_cast<uint4*>(tables)[i] = from[i];
      __syncthreads();
      is_loaded = true;
    }
    const uint64_t record_index = (item - segment.first_item) * kWarpsPerBlock + warp;
    if (record_index < segment.record_count) body(MakeTileTask(update, segment, record_index, tables, word_factors));
  }
}

}  // namespace xorbit::cuda
