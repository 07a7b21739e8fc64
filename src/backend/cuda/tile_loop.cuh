// How a grid goes through tiles of an update, whatever their segments: blocks take items in turn, and copy a segment's
// tables into shared memory when their next item belongs to another segment than the one before.
#pragma once

#include "backend/cuda/tile_tasks.h"

namespace xorbit::cuda {

inline constexpr uint32_t kThreadsPerBlock = kWarpsPerBlock * kWarpLanes;

// body.Run<Unit>(task) for the segment's unit.
template <typename Body>
__device__ __forceinline__ void RunTask(const TileTask& task, const Body& body) {
  switch (task.segment->unit_bytes) {
    case 1:
      return body.template Run<uint8_t>(task);
    case 2:
      return body.template Run<uint16_t>(task);
    case 4:
      return body.template Run<uint32_t>(task);
    default:
      return body.template Run<uint64_t>(task);
  }
}

// Once a block; needs update.table_bytes of dynamic shared memory: 0, and the tables are left out. body.Run<Unit>(task) is
// called by all lanes of a warp. It is no lambda: the compiler would make a call of a large one, and calls in the loops that
// matter cost them their registers.
template <typename Body>
__device__ __forceinline__ void ForEachTile(const UpdateOnDevice& update, const Body& body) {
  extern __shared__ SymbolTable tables[];
  __shared__ uint64_t word_factors[kWordFactorCount];
  __shared__ SegmentOnDevice segment;
  if (threadIdx.x < kWordFactorCount) word_factors[threadIdx.x] = WordFactorAt(threadIdx.x);
  // From lane 0, so that the compiler knows it to be the same in all lanes, and with it everything that follows from it.
  const uint64_t warp = ShuffleFrom(threadIdx.x / kWarpLanes, 0);
  uint64_t segment_index = update.items.segment_index;
  bool is_loaded = false;
  for (uint64_t item = update.items.begin + blockIdx.x; item < update.items.end; item += gridDim.x) {
    while (update.segments[segment_index + 1].first_item <= item) {
      ++segment_index;
      is_loaded = false;
    }
    if (!is_loaded) {
      __syncthreads();  // the segment before is not needed any more
      if (threadIdx.x == 0) segment = update.segments[segment_index];
      __syncthreads();
      const auto* from = reinterpret_cast<const uint4*>(segment.tables);
      const uint32_t table_count = update.table_bytes > 0 ? segment.table_count : 0;
      const uint32_t count = table_count * static_cast<uint32_t>(sizeof(SymbolTable) / sizeof(uint4));
      for (uint32_t i = threadIdx.x; i < count; i += kThreadsPerBlock) reinterpret_cast<uint4*>(tables)[i] = from[i];
      __syncthreads();
      is_loaded = true;
    }
    const uint64_t record_index = (item - segment.first_item) * kWarpsPerBlock + warp;
    if (record_index < segment.record_count) {
      RunTask(MakeTileTask(update, segment, record_index, tables, word_factors), body);
    }
  }
}

}  // namespace xorbit::cuda
