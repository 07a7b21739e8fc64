// Turns changes of canonical tensors into patches of checkpoint files, in file-friendly order, on several threads.
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

// Delivers every change of the inputs to `sink` as blocks, input by input, window by window in order. The sink is called from
// one thread at a time. Memory is a few windows a thread.
Result<PatchTotals> StreamPatches(const Checkpoint& checkpoint, const std::vector<PatchInput>& inputs, int threads,
                                  Progress* progress, PatchSink* sink);

}  // namespace xorbit
