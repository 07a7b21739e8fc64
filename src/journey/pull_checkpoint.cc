// which version is here? -> route -> fetch + verify -> plan -> pre-flight into a journal -> | stored |.
#include <algorithm>
#include <functional>

#include "base/staged_folder.h"
#include "base/text.h"
#include "journey/anchor_files.h"
#include "journey/patch_plan.h"
#include "journey/store_journey.h"
#include "receive/file_target.h"
#include "store/fetch.h"
#include "store/routes.h"

namespace xorbit {
namespace {

struct Place {
  uint64_t version;
  StateDigest state;
};

// The plan that brings a checkpoint from one place of the stream to another.
Result<PatchPlan> PlanPull(const Runtime& runtime, Stream& stream, const Place& from, const Place& to,
                           PulledCheckpoint* pulled) {
  Result<FetchedRoute> fetched = [&] {
    const Stage stage(runtime.timers, "fetch + verify");
    return FetchWay(stream, from.version, to.version, {.threads = runtime.threads});
  }();
  if (!fetched.ok()) return fetched.status();
  pulled->object_count += fetched->route.size();
  for (const Delta& delta : fetched->deltas) pulled->fetched_bytes += delta.total_file_bytes;
  const Direction first = fetched->route.front().backward ? Direction::kInverse : Direction::kForward;
  return PlanRoute(runtime, std::move(fetched->deltas), first, from.state, to.state);
}

Result<VersionRecord> TargetOf(Stream& stream, std::optional<uint64_t> version) {
  if (!version) {
    XORBIT_ASSIGN_OR_RETURN(version, stream.Newest());
  }
  XORBIT_ASSIGN_OR_RETURN(const auto record, stream.Record(*version));
  if (!record) return RefusedError("version " + std::to_string(*version) + " is not published yet");
  if (!record->committed()) return RefusedError("version " + std::to_string(*version) + " was given up");
  return *record;
}

// The anchors from which the target can be reached, the one with the cheapest way first.
Result<std::vector<uint64_t>> NearestAnchors(Stream& stream, uint64_t target) {
  XORBIT_ASSIGN_OR_RETURN(const std::vector<uint64_t> anchors, AnchorVersions(stream));
  std::vector<std::pair<uint64_t, uint64_t>> reachable;  // bytes of the way, version
  for (const uint64_t anchor : anchors) {
    const Result<std::vector<Hop>> route = stream.Route(anchor, target);
    const Code code = route.status().code();
    if (!route.ok() && code != Code::kNotFound && code != Code::kCorrupt) return route.status();  // another anchor may do
    if (route.ok()) reachable.emplace_back(ByteCountOf(*route), anchor);
  }
  if (reachable.empty()) {
    return RefusedError("the store holds no whole version from which version " + std::to_string(target) +
                        " can be reached; pull into a checkpoint that is a version of the stream");
  }
  std::sort(reachable.begin(), reachable.end());
  std::vector<uint64_t> versions;
  for (const auto& [byte_count, version] : reachable) versions.push_back(version);
  return versions;
}

// Brings what lies at `path` to the target.
Status PullInPlace(const Runtime& runtime, Stream& stream, FileTarget* target, const fs::path& path, const VersionRecord& to,
                   PulledCheckpoint* pulled) {
  XORBIT_ASSIGN_OR_RETURN(const auto recovered, target->Recover(RecoveryDirection::kRedo));
  pulled->recovered = !recovered.empty();
  const auto plan = [&](const Checkpoint& checkpoint) -> Result<std::optional<PatchPlan>> {
    XORBIT_RETURN_IF_ERROR(RequireSameLayout(checkpoint.layout(), Quoted(path.string()), stream.layout(), "the stream"));
    StateDigest state;
    {
      const Stage stage(runtime.timers, "scan");
      state = runtime.backend->Scan(stream.layout(), checkpoint.all_tensor_bytes(), ScanScope::kAll, runtime.threads);
    }
    XORBIT_ASSIGN_OR_RETURN(const std::optional<uint64_t> version, VersionOfState(stream, state));
    if (!version) {
      return RefusedError(Quoted(path.string()) + " is no version of stream " + Quoted(stream.info().stream_id) +
                          ": its state digest is " + ToText(state) + "; pull into a new folder to get one");
    }
    pulled->from = version;
    // Two versions may be one state: an update without changes.
    if (state == to.target) return std::optional<PatchPlan>();
    XORBIT_ASSIGN_OR_RETURN(PatchPlan pull, PlanPull(runtime, stream, {*version, state}, {to.version, to.target}, pulled));
    return std::optional<PatchPlan>(std::move(pull));
  };
  ApplySummary summary;
  XORBIT_RETURN_IF_ERROR(StepInPlace(runtime, target, path, plan, &summary));
  pulled->change_count += summary.change_count;
  return {};
}

Status LockAndPull(const Runtime& runtime, Stream& stream, const fs::path& path, const VersionRecord& to,
                   PulledCheckpoint* pulled) {
  XORBIT_ASSIGN_OR_RETURN(FileTarget target, FileTarget::Open(*runtime.file_ops, path, runtime.threads));
  return PullInPlace(runtime, stream, &target, path, to, pulled);
}

// Makes `path` from an anchor: fetched and brought to the target under a hidden name, so that it appears finished.
Status PullFromAnchor(const Runtime& runtime, Stream& stream, const fs::path& path, const VersionRecord& to,
                      PulledCheckpoint* pulled) {
  XORBIT_ASSIGN_OR_RETURN(const std::vector<uint64_t> anchors, NearestAnchors(stream, to.version));
  XORBIT_ASSIGN_OR_RETURN(StagedFolder staged, StagedFolder::Make(*runtime.file_ops, path));
  const fs::path full = staged.path() / "full";
  XORBIT_ASSIGN_OR_RETURN(const FetchedAnchor anchor, FetchFirstWhole(runtime, stream, anchors, full));
  pulled->fetched_bytes += anchor.byte_count;
  XORBIT_RETURN_IF_ERROR(LockAndPull(runtime, stream, full, to, pulled));
  pulled->from.reset();
  const Status published = staged.PublishEntry("full", path);
  if (published.code() != Code::kExists) return published;
  return ExistsError(Quoted(path.string()) + " was made by somebody else meanwhile: pull again");
}

using PullWay = std::function<Status(Stream& stream, const VersionRecord& to, PulledCheckpoint* pulled)>;

Result<PulledCheckpoint> PullBy(ObjectStore& store, std::string_view stream_id, std::optional<uint64_t> version,
                                const PullWay& pull) {
  XORBIT_ASSIGN_OR_RETURN(Stream stream, Stream::Open(store, stream_id));
  XORBIT_ASSIGN_OR_RETURN(const VersionRecord to, TargetOf(stream, version));
  PulledCheckpoint pulled;
  pulled.stream_id = stream.info().stream_id;
  pulled.version = to.version;
  pulled.state = to.target;
  XORBIT_RETURN_IF_ERROR(pull(stream, to, &pulled));
  return pulled;
}

}  // namespace

Result<std::optional<uint64_t>> VersionOfState(Stream& stream, const StateDigest& state) {
  XORBIT_ASSIGN_OR_RETURN(const uint64_t newest, stream.Newest());
  for (uint64_t version = newest + 1; version-- > 0;) {
    XORBIT_ASSIGN_OR_RETURN(const VersionRecord record, stream.DecidedRecord(version));
    if (record.committed() && record.target == state) return std::optional(version);
  }
  return std::optional<uint64_t>();
}

Result<PulledCheckpoint> PullCheckpoint(const Runtime& runtime, ObjectStore& store, std::string_view stream_id,
                                        const fs::path& checkpoint, std::optional<uint64_t> version) {
  return PullBy(store, stream_id, version, [&](Stream& stream, const VersionRecord& to, PulledCheckpoint* pulled) {
    std::error_code ignored;
    const bool is_there = fs::exists(checkpoint, ignored);
    return (is_there ? LockAndPull : PullFromAnchor)(runtime, stream, checkpoint, to, pulled);
  });
}

Result<PulledCheckpoint> PullCheckpoint(const Runtime& runtime, ObjectStore& store, std::string_view stream_id,
                                        FileTarget* target, const fs::path& checkpoint, std::optional<uint64_t> version) {
  return PullBy(store, stream_id, version, [&](Stream& stream, const VersionRecord& to, PulledCheckpoint* pulled) {
    return PullInPlace(runtime, stream, target, checkpoint, to, pulled);
  });
}

}  // namespace xorbit
