// Launches of the kernels of mask updates. None waits; errors of a kernel itself show at the next synchronisation.
#pragma once

#include <cuda_runtime_api.h>

#include "backend/cuda/mask/frame_decoder.h"
#include "backend/cuda/mask/masks_on_device.h"
#include "backend/cuda/update_kernels.h"

namespace xorbit::cuda {

// Snappy or LZ4 frames.
Status LaunchFrameDecode(const DecodeJob& job);

// One batch in one slot. most_blocks: 0 for as many as the device holds.
struct MaskLaunch {
  const UpdateOnDevice* update;
  const MasksOnDevice* masks;
  MaskSlot slot;
  uint32_t most_blocks;
  cudaStream_t stream;
};

// Sums hashes of the masks of tiles [begin, end).
Status LaunchMaskHash(const MaskLaunch& launch, uint64_t begin, uint64_t end);
// Opens the frames of a batch to a pass (OpenFrame).
Status LaunchOpenFrames(const MaskLaunch& launch, const MaskBatch& batch, MaskPass pass, bool needs_proof);
// One pass over tiles [begin, end) of frames that have been opened to it.
Status LaunchMaskPass(const MaskLaunch& launch, uint64_t begin, uint64_t end, MaskPass pass);
// Loads the kernel of MaskPass::kApply (LoadKernel).
Status LoadMaskApply();
// The step of shadows and aliases.
Status LaunchMaskBindings(const MaskLaunch& launch, uint64_t begin, uint64_t end, const BindingsOnDevice& bindings,
                          BindingStep step);
// After the last batch (AuditFrame).
Status LaunchAudit(const MaskLaunch& launch, uint64_t frame_count);

}  // namespace xorbit::cuda
