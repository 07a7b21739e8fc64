// A weight_vNNNNNN folder -> every tensor's checksum verified -> patches.
#include <algorithm>

#include "base/text.h"
#include "interchange/miles_chain.h"
#include "journey/patch_plan.h"

namespace xorbit {
namespace {

Result<uint64_t> StreamMiles(const Checkpoint& checkpoint, const MilesDelta& delta, Progress* progress, PatchSink* sink) {
  uint64_t change_count = 0;
  WindowChanges scratch;
  for (size_t i = 0; i < delta.entries().size(); ++i) {
    const uint32_t tensor_index = delta.entries()[i].tensor_index;
    const TensorLocation& location = checkpoint.locations()[tensor_index];
    const ConstBytes live = checkpoint.tensor_bytes(tensor_index);
    XORBIT_RETURN_IF_ERROR(delta.ForEachChange(i, live, &scratch, [&](const TensorChanges& changes) {
      change_count += changes.window->count;
      return sink->Add({.file_index = location.file_index,
                        .unit_bytes = changes.unit_bytes,
                        .file_offset = location.offset_bytes + changes.first_element * changes.unit_bytes,
                        .count = changes.window->count,
                        .positions = changes.window->positions.data(),
                        .olds = changes.window->olds.data(),
                        .xors = changes.window->xors.data()});
    }));
    if (progress != nullptr) progress->done += live.size();
  }
  return change_count;
}

Status Refuse(const fs::path& folder, const MilesVerdict& verdict) {
  const bool mixed = verdict.state == MilesState::kInterrupted;
  return RefusedError(
      "'" + folder.string() + "' does not fit the checkpoint: tensor " + Quoted(verdict.tensor_name) + " " +
      (mixed ? "holds the new version already while others do not; another tool was interrupted, restore the checkpoint"
             : "would not get the checksum of the new version; the checkpoint is not this delta's base"));
}

Status CheckDirection(Direction direction) {
  if (direction == Direction::kForward) return {};
  return UnsupportedError(
      "weight_v folders hold no checksums of their base and cannot be undone; only an interrupted apply can");
}

}  // namespace

Result<bool> IsMilesChain(const std::vector<fs::path>& folders) {
  const auto count = static_cast<size_t>(std::count_if(folders.begin(), folders.end(), HasMilesIndex));
  if (count != 0 && count != folders.size()) return UsageError("a chain must be all xorbit deltas or all weight_v folders");
  return count != 0;
}

Result<size_t> FirstMilesToApply(const Runtime& runtime, const Checkpoint& checkpoint, const std::vector<fs::path>& folders,
                                 Direction direction) {
  XORBIT_RETURN_IF_ERROR(CheckDirection(direction));
  std::vector<MilesDelta> deltas;
  for (const fs::path& folder : folders) {
    XORBIT_ASSIGN_OR_RETURN(MilesDelta delta, MilesDelta::Open(folder, checkpoint.layout()));
    deltas.push_back(std::move(delta));
  }
  XORBIT_ASSIGN_OR_RETURN(const std::optional<size_t> position,
                          FindPosition(deltas, nullptr, checkpoint.all_tensor_bytes(), runtime.threads));
  return position.value_or(0);  // nowhere: planning the first one says why
}

Result<std::optional<PatchPlan>> PlanMiles(const Runtime& runtime, const Checkpoint& checkpoint, const fs::path& folder,
                                           Direction direction) {
  XORBIT_RETURN_IF_ERROR(CheckDirection(direction));
  XORBIT_ASSIGN_OR_RETURN(MilesDelta opened, MilesDelta::Open(folder, checkpoint.layout()));
  const auto delta = std::make_shared<const MilesDelta>(std::move(opened));
  const Stage stage(runtime.timers, "pre-flight");
  XORBIT_ASSIGN_OR_RETURN(const MilesVerdict verdict, delta->VerifyAgainst(checkpoint.all_tensor_bytes(), runtime.threads));
  if (verdict.state == MilesState::kTarget) return std::optional<PatchPlan>();
  if (verdict.state != MilesState::kBase) return Refuse(folder, verdict);
  Sha256 identity;
  for (const MilesEntry& entry : delta->entries()) identity.Update(AsBytes(entry.checksum));
  PatchPlan plan;
  plan.delta_count = 1;
  plan.identity = {identity.Finish(), std::nullopt};
  plan.stream = [&runtime, delta](const Checkpoint& target, PatchSink* sink) {
    return StreamMiles(target, *delta, runtime.progress, sink);
  };
  plan.check = [&runtime, delta](const Checkpoint& result) -> Status {
    XORBIT_ASSIGN_OR_RETURN(const MilesVerdict found, delta->VerifyAgainst(result.all_tensor_bytes(), runtime.threads));
    if (found.state == MilesState::kTarget) return {};
    return RefusedError("the result is not the delta's target: the checkpoint was changed while it was copied; try again");
  };
  return std::optional<PatchPlan>(std::move(plan));
}

}  // namespace xorbit
