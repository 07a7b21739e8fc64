// The state digest of boxes whose runs are too short to be scanned one by one: granule by granule, each found by arithmetic.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include "base/status.h"
#include "change/state_digest.h"
#include "tensor/live_map.h"

namespace xorbit::cuda {

// Granules [first, end) of a piece, in its canonical order: what one block scans.
struct ScatteredRange {
  uint64_t region_address;
  uint64_t tensor_key;
  uint64_t first;
  uint64_t end;
  uint64_t origin;
  uint64_t live_origin;
  uint32_t class_index;
  uint32_t reserved;
};

// Adds the digest of all ranges to *digest_dev, in stream order. By most_blocks blocks at most; 0: as many as the device holds.
Status LaunchScatteredScan(const ScatteredRange* ranges_dev, uint64_t range_count, const PieceClass* classes_dev,
                           uint32_t most_blocks, StateDigest* digest_dev, cudaStream_t stream);

}  // namespace xorbit::cuda
