// The parts that all launches over tiles share.
#pragma once

#include <algorithm>
#include <string>

#include "backend/cuda/cuda_status.h"
#include "backend/cuda/tile_loop.cuh"
#include "backend/cuda/update_kernels.h"

namespace xorbit::cuda {

// Blocks of a multiprocessor, which also bounds the registers of their threads (docs/design/cuda.md has the figures): sparse
// updates want pre-flight's symbol loop without a spill, dense ones as many warps as there can be.
inline constexpr uint32_t kPreflightBlocks = 3;
inline constexpr uint32_t kApplyBlocks = 4;

template <typename... Parameters, typename... Arguments>
Status LaunchOverTiles(const char* name, void (*kernel)(UpdateOnDevice, Parameters...), uint32_t default_blocks,
                       const UpdateOnDevice& update, const LaunchShape& shape, cudaStream_t stream, Arguments... arguments) {
  if (shape.loads_only) return LoadKernel(reinterpret_cast<const void*>(kernel), name);
  const uint64_t item_count = update.items.end - update.items.begin;
  if (item_count == 0) return {};
  int device = 0;
  int multiprocessors = 0;
  XORBIT_RETURN_IF_ERROR(CudaStatus(cudaGetDevice(&device), "cudaGetDevice"));
  XORBIT_RETURN_IF_ERROR(CudaStatus(cudaDeviceGetAttribute(&multiprocessors, cudaDevAttrMultiProcessorCount, device),
                                    "cudaDeviceGetAttribute of the multiprocessor count"));
  // More than 48 KiB have to be asked for.
  XORBIT_RETURN_IF_ERROR(
      CudaStatus(cudaFuncSetAttribute(reinterpret_cast<const void*>(kernel), cudaFuncAttributeMaxDynamicSharedMemorySize,
                                      static_cast<int>(update.table_bytes)),
                 std::string("cudaFuncSetAttribute of ") + name));
  const uint32_t blocks_each = shape.blocks_per_multiprocessor > 0 ? shape.blocks_per_multiprocessor : default_blocks;
  uint64_t block_count = std::min<uint64_t>(item_count, uint64_t{blocks_each} * static_cast<uint32_t>(multiprocessors));
  if (shape.most_blocks > 0) block_count = std::min<uint64_t>(block_count, shape.most_blocks);
  kernel<<<static_cast<uint32_t>(block_count), kThreadsPerBlock, update.table_bytes, stream>>>(update, arguments...);
  return CudaStatus(cudaGetLastError(), std::string("launch of ") + name);
}

}  // namespace xorbit::cuda
