// Launches of the kernels that go through the tiles of an update: those of update.items. None waits; errors of a kernel itself
// show at the next synchronisation. `stream` is the caller's, on the current device, which also holds the update.
#pragma once

#include <cuda_runtime_api.h>

#include "backend/cuda/spread_visitors.h"
#include "base/status.h"

namespace xorbit::cuda {

// How a grid is cut. 0: what was measured to be best.
struct LaunchShape {
  uint32_t blocks_per_multiprocessor = 0;
  uint32_t most_blocks = 0;  // of a grid
  bool loads_only = false;   // loads the kernels, and launches none
};

// Validates these tiles, fills update.sums, adds to the counters (which the caller has cleared), keeps old values if the
// segments have room for them. Changes nothing in live memory.
Status LaunchPreflight(const UpdateOnDevice& update, bool keep_log, const LaunchShape& shape, cudaStream_t stream);

// After a pre-flight that has accepted every tile: lays out those that have room for it, and leaves in update.local_sums,
// instead of their digests, what LaunchApply has to find there. Changes nothing in live memory.
Status LaunchBitmaps(const UpdateOnDevice& update, const LaunchShape& shape, cudaStream_t stream);

// Writes to live memory, the items of all payloads at once, after a pre-flight of the same update; kCompare only reads.
// kReturningXor reports tiles whose old values are not those of pre-flight, kCompare those that are not the old or, if
// expect_after, the new ones. If it fails, what it has launched is taken back, in stream order.
Status LaunchApply(const UpdateOnDevice& update, ApplyKind kind, bool expect_after, const LaunchShape& shape,
                   cudaStream_t stream);

// The step of shadows and aliases that goes with pre-flight or with a way to write, after it in the stream. `tiles` are a
// staged update's checked() for kCheck, its cast() otherwise. Adds reports to the counters, and in kCheck sums to the ties.
Status LaunchBindings(const UpdateOnDevice& tiles, const BindingsOnDevice& bindings, BindingStep step, const LaunchShape& shape,
                      cudaStream_t stream);

}  // namespace xorbit::cuda
