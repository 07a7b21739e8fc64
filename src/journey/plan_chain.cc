// delta folders -> where does the checkpoint stand? -> decode + merge -> patches, proven by their digests.
#include "backend/decoded_chain.h"
#include "journey/patch_plan.h"
#include "journey/patch_stream.h"

namespace xorbit {
namespace {

// The deltas between where the checkpoint stands and where it shall go.
struct Way {
  std::vector<Delta> deltas;
  StateDigest from;
  StateDigest to;
  size_t nearest = 0;  // the delta that is taken first, and which way
  Direction direction = Direction::kForward;
};

Result<std::optional<Way>> FindWay(const Runtime& runtime, const Checkpoint& checkpoint, std::vector<Delta> chain,
                                   Direction direction) {
  XORBIT_ASSIGN_OR_RETURN(const StateReport report, IdentifyState(runtime, checkpoint, chain));
  if (report.standing != Standing::kAt) {
    return RefusedError("'" + checkpoint.path().string() + "' is neither the base nor the target of '" +
                        chain.front().folder.string() + "': its state digest is " + ToText(report.digest) +
                        ", the delta starts from " + ToText(chain.front().manifest.base));
  }
  const bool forward = direction == Direction::kForward;
  const size_t applied = report.applied_count;
  if (applied == (forward ? chain.size() : 0)) return std::optional<Way>();
  Way way;
  way.from = report.digest;
  way.to = forward ? chain.back().manifest.target : chain.front().manifest.base;
  const auto middle = chain.begin() + static_cast<ptrdiff_t>(applied);
  way.deltas.assign(std::make_move_iterator(forward ? middle : chain.begin()),
                    std::make_move_iterator(forward ? chain.end() : middle));
  way.nearest = forward ? 0 : way.deltas.size() - 1;
  way.direction = direction;
  return std::optional<Way>(std::move(way));
}

// Why a way does not lead where its manifests say, as exactly as can be told: the live values are those of its first delta's
// own end, so that delta's tiles can be held against them one by one.
Status ExplainMismatch(const Runtime& runtime, const Checkpoint& checkpoint, const Way& way) {
  const Delta& delta = way.deltas[way.nearest];
  const LiveMap map = CanonicalMap(checkpoint.layout());
  const std::vector<MutableBytes> live = ReadOnlyRegions(checkpoint.all_tensor_bytes());
  for (size_t owner = 0; owner < delta.payloads.size(); ++owner) {
    const auto found = runtime.backend->Prepare(checkpoint.layout(), {&delta.payloads[owner], 1}, {&map, live, {}},
                                                {.threads = runtime.threads, .direction = way.direction});
    if (found.ok()) continue;
    return CorruptError((delta.folder / delta.manifest.owners[owner].file).string() +
                        ": its digests do not fit the weights, although they are in the state that it starts from: " +
                        found.status().message());
  }
  return CorruptError("the delta does not change what its manifest says: the digests of the result would not agree");
}

// All changes of the way, in the checkpoint's own order. What they change must be what the manifests say, in both lanes: with
// the scan before, this proves the result without reading it back.
Result<uint64_t> StreamWay(const Runtime& runtime, const Checkpoint& checkpoint, const Way& way, PatchSink* sink) {
  XORBIT_ASSIGN_OR_RETURN(const DecodedChain decoded, DecodedChain::Open(*runtime.backend, way.deltas));
  XORBIT_ASSIGN_OR_RETURN(const auto owners, PlanOwners(checkpoint.layout(), 1, Split::kWhole));
  const std::vector<ConstBytes> live = checkpoint.all_tensor_bytes();
  std::vector<std::unique_ptr<DecodedSource>> sources;
  std::vector<PatchInput> inputs;
  for (const SegmentMap& map : owners.front()) {
    sources.push_back(decoded.Into(map, ValueSide::kBase, SegmentBytes::InTensors(map, live)));
    inputs.push_back({&map, sources.back().get()});
  }
  XORBIT_ASSIGN_OR_RETURN(const PatchTotals totals, StreamPatches(checkpoint, inputs, runtime.threads, runtime.progress, sink));
  if (way.from + totals.change != way.to) {
    return ExplainMismatch(runtime, checkpoint, way);
  }
  return totals.change_count;
}

// Identifies the change in a journal: the payloads that make it up.
JournalIdentity IdentityOf(const Way& way) {
  Sha256 hash;
  for (const Delta& delta : way.deltas) {
    for (const ManifestOwner& owner : delta.manifest.owners) hash.Update(owner.sha256);
  }
  return {hash.Finish(), JournalIdentity::States{way.from, way.to}};
}

PatchPlan PlanOf(const Runtime& runtime, Way found) {
  const auto way = std::make_shared<const Way>(std::move(found));  // std::function must be copyable
  PatchPlan plan;
  plan.delta_count = way->deltas.size();
  plan.identity = IdentityOf(*way);
  plan.digest = way->to;
  plan.stream = [&runtime, way](const Checkpoint& target, PatchSink* sink) { return StreamWay(runtime, target, *way, sink); };
  plan.check = [&runtime, way](const Checkpoint& result) -> Status {
    const StateDigest state =
        runtime.backend->Scan(result.layout(), result.all_tensor_bytes(), ScanScope::kAll, runtime.threads);
    if (state == way->to) return {};
    return RefusedError("the result is not the delta's target: the checkpoint was changed while it was copied; try again");
  };
  return plan;
}

}  // namespace

Result<std::optional<PatchPlan>> PlanChain(const Runtime& runtime, const Checkpoint& checkpoint, std::vector<Delta> chain,
                                           Direction direction) {
  XORBIT_ASSIGN_OR_RETURN(std::optional<Way> way, FindWay(runtime, checkpoint, std::move(chain), direction));
  if (!way) return std::optional<PatchPlan>();
  return std::optional<PatchPlan>(PlanOf(runtime, std::move(*way)));
}

PatchPlan PlanRoute(const Runtime& runtime, std::vector<Delta> deltas, Direction first, const StateDigest& from,
                    const StateDigest& to) {
  return PlanOf(runtime, Way{std::move(deltas), from, to, 0, first});
}

}  // namespace xorbit
