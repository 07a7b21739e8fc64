// The state digest of weights in device memory, at nearly the speed of reading them.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>
#include <span>
#include <vector>

#include "base/status.h"
#include "change/state_digest.h"

namespace xorbit::cuda {

// Bytes of one tensor that are contiguous in device memory.
struct ScanRange {
  uint64_t address;
  uint64_t byte_count;
  uint64_t tensor_byte;  // of the first one
  uint64_t tensor_key;
};

// A piece of a range, which one block scans: cut on the host, so that blocks have equal work.
std::vector<ScanRange> CutScanRanges(std::span<const ScanRange> ranges);

// Adds the digest of all pieces to *digest_dev, in stream order: both lanes, or only lane 0 if lane_count is 1. By most_blocks
// blocks at most; 0: as many as the device holds.
Status LaunchScan(const ScanRange* pieces_dev, uint64_t piece_count, uint32_t lane_count, uint32_t most_blocks,
                  StateDigest* digest_dev, cudaStream_t stream);

}  // namespace xorbit::cuda
