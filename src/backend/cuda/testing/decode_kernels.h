// Reads of weights as a decode step does them: what an engine's matrix-vector products amount to, without the arithmetic.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include "base/status.h"

namespace xorbit::cuda::testing {

// How a kernel's blocks share a device, and so what a block of the background costs them.
enum class DecodeShape {
  kManyBlocks,  // several waves of small blocks: what the background holds, others do without
  kPersistent,  // one block with all its shared memory on each multiprocessor, and equal work: it waits until the background
                // leaves, and the step waits for it
};

// Reads `byte_count` bytes from a 16-byte aligned address; a multiple of 16.
Status LaunchDecode(DecodeShape shape, const uint8_t* from_dev, uint64_t byte_count, uint64_t* sink_dev, cudaStream_t stream);

}  // namespace xorbit::cuda::testing
