// Turns changes of canonical tensors into patches of checkpoint files, on several threads.
#pragma once

#include <cstdint>
#include <vector>

#include "base/progress.h"
#include "change/change_source.h"
#include "change/state_digest.h"
#include "receive/patch.h"
#include "tensor/checkpoint.h"
#include "tensor/segment.h"

namespace xorbit {

// A segment of the checkpoint's own layout and the changes for it, with old values.
struct PatchInput {
  const SegmentMap* map = nullptr;
  const ChangeSource* source = nullptr;
};

struct PatchTotals {
  uint64_t change_count = 0;
  StateDigest change;  // after - before, both lanes
};

// Delivers every change of the inputs to `sink` as blocks, from several threads at once and in no fixed order: sinks sort or do
// not care, and so nobody waits for a neighbour. Memory is a window and a decoded record a thread.
Result<PatchTotals> StreamPatches(const Checkpoint& checkpoint, const std::vector<PatchInput>& inputs, int threads,
                                  Progress* progress, PatchSink* sink);

}  // namespace xorbit
