// Inner frames as decoders read them: the outer Zstd undone on the CPU, hashed, segments' streams side by side in memory that
// the caller provides (pinned, so that a device reads it).
#pragma once

#include "backend/cuda/mask/mask_plan.h"

namespace xorbit::cuda {

// Bytes that StageInner needs.
uint64_t InnerStagingBytes(const MaskPlan& plan);

// Fills `target`, of InnerStagingBytes() and kInnerAlignment-aligned, on `threads` threads. kCorrupt names the first outer
// chunk that is not what its record says, or the frame that does not match its hash.
Status StageInner(const MaskPlan& plan, int threads, MutableBytes target);

// Lets the plan's frames point to where `target` lies, or a copy of it.
void PlaceInner(const uint8_t* target, MaskPlan* plan);

}  // namespace xorbit::cuda
