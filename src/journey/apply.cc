// delta -> open + verify -> plan -> pre-flight into a journal or a copy -> | stored |.
#include "journey/journey.h"
#include "journey/patch_plan.h"
#include "receive/checkpoint_copy.h"
#include "receive/file_target.h"

namespace xorbit {
namespace {

// Streams a plan's changes; success means that every one of them is known, proven and in the sink.
Result<uint64_t> StreamPlan(const Runtime& runtime, const PatchPlan& plan, const Checkpoint& checkpoint, PatchSink* sink) {
  const Stage stage(runtime.timers, "pre-flight");
  if (runtime.progress != nullptr) runtime.progress->Begin("pre-flight", checkpoint.layout().total_bytes());
  return plan.stream(checkpoint, sink);
}

// The checkpoint's files as they are now; its maps show what was stored through them.
StateDigest ScanFiles(const Runtime& runtime, const Checkpoint& checkpoint) {
  const Stage stage(runtime.timers, "scan");
  return runtime.backend->Scan(checkpoint.layout(), checkpoint.all_tensor_bytes(), ScanScope::kAll, runtime.threads);
}

}  // namespace

Status StepInPlace(const Runtime& runtime, FileTarget* target, const fs::path& path,
                   const std::function<Result<std::optional<PatchPlan>>(const Checkpoint&)>& make_plan, ApplySummary* summary) {
  XORBIT_ASSIGN_OR_RETURN(const Checkpoint checkpoint, Checkpoint::Open(path));
  XORBIT_ASSIGN_OR_RETURN(const std::optional<PatchPlan> plan, make_plan(checkpoint));
  if (!plan) return {};
  XORBIT_ASSIGN_OR_RETURN(std::unique_ptr<JournalWriter> journal, target->Begin(TargetFilesOf(checkpoint), plan->identity));
  XORBIT_ASSIGN_OR_RETURN(const uint64_t change_count, StreamPlan(runtime, *plan, checkpoint, journal.get()));
  // Fence: from here on the journal can finish or undo the change, whatever happens.
  {
    const Stage stage(runtime.timers, "store");
    XORBIT_RETURN_IF_ERROR(target->Commit(std::move(journal)));
  }
  summary->change_count += change_count;
  summary->delta_count += plan->delta_count;
  summary->digest = plan->digest ? *plan->digest : ScanFiles(runtime, checkpoint);
  return {};
}

namespace {

// Brings a checkpoint without journals along the chain.
Status ApplySteps(const Runtime& runtime, FileTarget* target, const fs::path& path, const std::vector<fs::path>& folders,
                  Direction direction, ApplySummary* summary) {
  XORBIT_ASSIGN_OR_RETURN(const bool is_miles, IsMilesChain(folders));
  if (is_miles) {
    size_t first = 0;
    {
      XORBIT_ASSIGN_OR_RETURN(const Checkpoint checkpoint, Checkpoint::Open(path));
      XORBIT_ASSIGN_OR_RETURN(first, FirstMilesToApply(runtime, checkpoint, folders, direction));
    }
    for (size_t i = first; i < folders.size(); ++i) {
      const auto plan = [&](const Checkpoint& checkpoint) { return PlanMiles(runtime, checkpoint, folders[i], direction); };
      XORBIT_RETURN_IF_ERROR(StepInPlace(runtime, target, path, plan, summary));
    }
    return {};
  }
  XORBIT_ASSIGN_OR_RETURN(std::vector<Delta> chain, OpenChain(runtime, folders));
  const auto plan = [&](const Checkpoint& checkpoint) { return PlanChain(runtime, checkpoint, std::move(chain), direction); };
  return StepInPlace(runtime, target, path, plan, summary);
}

}  // namespace

Result<ApplySummary> ApplyInPlace(const Runtime& runtime, const fs::path& path, const std::vector<fs::path>& folders,
                                  Direction direction) {
  XORBIT_ASSIGN_OR_RETURN(FileTarget target, FileTarget::Open(*runtime.file_ops, path, runtime.threads));
  return ApplyInPlace(runtime, &target, path, folders, direction);
}

Result<ApplySummary> ApplyInPlace(const Runtime& runtime, FileTarget* target, const fs::path& path,
                                  const std::vector<fs::path>& folders, Direction direction) {
  XORBIT_ASSIGN_OR_RETURN(const auto recovered, target->Recover(RecoveryDirection::kRedo));
  ApplySummary summary;
  summary.recovered = !recovered.empty();
  const Status status = ApplySteps(runtime, target, path, folders, direction, &summary);
  if (!status.ok() && summary.recovered) {
    return Status(status.code(), status.message() + "; an interrupted earlier apply was finished before this");
  }
  XORBIT_RETURN_IF_ERROR(status);
  summary.already_there = summary.delta_count == 0;
  return summary;
}

Result<ApplySummary> ApplyToCopy(const Runtime& runtime, const fs::path& path, const std::vector<fs::path>& folders,
                                 const fs::path& out, Direction direction) {
  XORBIT_ASSIGN_OR_RETURN(const Checkpoint checkpoint, OpenSettled(path));
  XORBIT_ASSIGN_OR_RETURN(const bool is_miles, IsMilesChain(folders));
  if (is_miles && folders.size() > 1) {
    return UnsupportedError(
        "weight_v folders can be applied to a copy one at a time only; apply the next ones to it --in-place");
  }
  std::optional<PatchPlan> plan;
  if (is_miles) {
    XORBIT_ASSIGN_OR_RETURN(plan, PlanMiles(runtime, checkpoint, folders.front(), direction));
  } else {
    XORBIT_ASSIGN_OR_RETURN(std::vector<Delta> chain, OpenChain(runtime, folders));
    XORBIT_ASSIGN_OR_RETURN(plan, PlanChain(runtime, checkpoint, std::move(chain), direction));
  }
  std::unique_ptr<CheckpointCopy> copy;
  {
    const Stage stage(runtime.timers, "copy");
    XORBIT_ASSIGN_OR_RETURN(copy, CheckpointCopy::Make(*runtime.file_ops, checkpoint, out));
  }
  ApplySummary summary;
  summary.already_there = !plan.has_value();
  if (plan) {
    XORBIT_ASSIGN_OR_RETURN(summary.change_count, StreamPlan(runtime, *plan, checkpoint, copy.get()));
    summary.delta_count = plan->delta_count;
    summary.digest = plan->digest;
    // The source may have been changed between the plan and the copy: the copy is proven before anybody can see it.
    const Stage stage(runtime.timers, "check");
    XORBIT_ASSIGN_OR_RETURN(const Checkpoint result, Checkpoint::Open(copy->path()));
    XORBIT_RETURN_IF_ERROR(plan->check(result));
  }
  // Fence: the copy is the target state; all that it lacks is its name.
  {
    const Stage stage(runtime.timers, "store");
    XORBIT_RETURN_IF_ERROR(copy->Publish());
  }
  if (plan && !plan->digest) {
    XORBIT_ASSIGN_OR_RETURN(const Checkpoint result, Checkpoint::Open(out));
    summary.digest = ScanFiles(runtime, result);
  }
  return summary;
}

Result<bool> RollBack(const Runtime& runtime, const fs::path& path) {
  XORBIT_ASSIGN_OR_RETURN(FileTarget target, FileTarget::Open(*runtime.file_ops, path, runtime.threads));
  XORBIT_ASSIGN_OR_RETURN(const auto recovered, target.Recover(RecoveryDirection::kUndo));
  return !recovered.empty();
}

}  // namespace xorbit
