// What applying a chain would change in a checkpoint: decided first, streamed into a journal or a copy afterwards.
#pragma once

#include <functional>
#include <optional>

#include "journey/journey.h"
#include "receive/journal_format.h"
#include "receive/patch.h"

namespace xorbit {

// One step from the checkpoint's state to another. Holds what it needs but for the Runtime and the checkpoint.
struct PatchPlan {
  size_t delta_count = 0;  // deltas of the chain that it takes
  JournalIdentity identity;
  std::optional<StateDigest> digest;  // of the result, where the deltas say it
  // Hands all changes to the sink and returns their number. An error means: nothing may be changed.
  std::function<Result<uint64_t>(const Checkpoint& checkpoint, PatchSink* sink)> stream;
  // Proves that a checkpoint is the result, reading all of it: kRefused if not.
  std::function<Status(const Checkpoint& result)> check;
};

// The plan that brings the checkpoint to the far end of the chain; nothing if it is there already. kRefused if it is in no
// state of the chain.
Result<std::optional<PatchPlan>> PlanChain(const Runtime& runtime, const Checkpoint& checkpoint, std::vector<Delta> chain,
                                           Direction direction);

// The same for one weight_vNNNNNN folder of Miles, slime or stitch, verified against every tensor's checksum. The format says
// nothing of its base, so only the forward direction is possible (kUnsupported), and nothing of the result's state digest.
Result<std::optional<PatchPlan>> PlanMiles(const Runtime& runtime, const Checkpoint& checkpoint, const fs::path& folder,
                                           Direction direction);

// Where in a chain of such folders the checkpoint stands: the index of the first one to apply, the chain's length if none is.
// Opens all of them, so that a broken one is found before anything changes.
Result<size_t> FirstMilesToApply(const Runtime& runtime, const Checkpoint& checkpoint, const std::vector<fs::path>& folders);

// Whether all folders are in that format; kUsage if only some are.
Result<bool> IsMilesChain(const std::vector<fs::path>& folders);

}  // namespace xorbit
