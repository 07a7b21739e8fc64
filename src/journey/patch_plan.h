// What applying a chain would change in a checkpoint: decided first, streamed into a journal or a copy afterwards.
#pragma once

#include <functional>
#include <optional>

#include "journey/journey.h"
#include "receive/file_target.h"
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

// The plan that takes a route through a store, whose deltas go forward or back (XOR does not mind) and lead from state `from`,
// which the checkpoint was found to be in, to state `to`. `first` is the way the first one is taken.
PatchPlan PlanRoute(const Runtime& runtime, std::vector<Delta> deltas, Direction first, const StateDigest& from,
                    const StateDigest& to);

// The same for one weight_vNNNNNN folder of Miles, slime or stitch, verified against every tensor's checksum. The format says
// nothing of its base, so only the forward direction is possible (kUnsupported), and nothing of the result's state digest.
Result<std::optional<PatchPlan>> PlanMiles(const Runtime& runtime, const Checkpoint& checkpoint, const fs::path& folder,
                                           Direction direction);

// Where in a chain of such folders the checkpoint stands: the index of the first one to apply, the chain's length if none is.
// Opens all of them, so that a broken one is found before anything changes. kUnsupported unless they are to go forward.
Result<size_t> FirstMilesToApply(const Runtime& runtime, const Checkpoint& checkpoint, const std::vector<fs::path>& folders,
                                 Direction direction);

// Plans one step and makes it in place; does nothing if there is no plan, since the checkpoint is there. `target` has nothing
// left to recover. Crash-safe; the summary is added to.
Status StepInPlace(const Runtime& runtime, FileTarget* target, const fs::path& path,
                   const std::function<Result<std::optional<PatchPlan>>(const Checkpoint&)>& make_plan, ApplySummary* summary);

// Whether all folders are in that format; kUsage if only some are.
Result<bool> IsMilesChain(const std::vector<fs::path>& folders);

}  // namespace xorbit
