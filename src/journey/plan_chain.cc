// delta folders -> where does the checkpoint stand? -> decode + merge -> patches, proven by their digests.
#include "backend/decoded_chain.h"
#include "journey/patch_plan.h"
#include "journey/patch_stream.h"

namespace xorbit {
namespace {

// The deltas between where the checkpoint stands and where it shall go.
struct RemainingDeltas {
  std::vector<Delta> deltas;
  StateDigest from;
  StateDigest to;
  size_t nearest = 0;  // the delta that is taken first, and which way
  Direction direction = Direction::kForward;
};

Result<std::optional<RemainingDeltas>> FindRemaining(const Runtime& runtime, const Checkpoint& checkpoint,
                                                     std::vector<Delta> chain, Direction direction) {
  XORBIT_ASSIGN_OR_RETURN(const StateReport report, IdentifyState(runtime, checkpoint, chain));
  if (report.position != ChainPosition::kOnChain) {
    return RefusedError("'" + checkpoint.path().string() + "' is neither the base nor the target of '" +
                        chain.front().folder.string() + "': its state digest is " + ToText(report.digest) +
                        ", the delta starts from " + ToText(chain.front().manifest.base));
  }
  const bool forward = direction == Direction::kForward;
  const size_t applied = report.chain_index;
  if (applied == (forward ? chain.size() : 0)) return std::optional<RemainingDeltas>();
  RemainingDeltas remaining;
  remaining.from = report.digest;
  remaining.to = forward ? chain.back().manifest.target : chain.front().manifest.base;
  const auto middle = chain.begin() + static_cast<ptrdiff_t>(applied);
  remaining.deltas.assign(std::make_move_iterator(forward ? middle : chain.begin()),
                          std::make_move_iterator(forward ? chain.end() : middle));
  remaining.nearest = forward ? 0 : remaining.deltas.size() - 1;
  remaining.direction = direction;
  return std::optional<RemainingDeltas>(std::move(remaining));
}

// Why deltas do not lead where their manifests say, as exactly as can be told: the live values are those of the first delta's
// own end, so that delta's tiles can be held against them one by one.
Status ExplainMismatch(const Runtime& runtime, const Checkpoint& checkpoint, const RemainingDeltas& remaining) {
  const Delta& delta = remaining.deltas[remaining.nearest];
  const LiveMap map = CanonicalMap(checkpoint.layout());
  const std::vector<MutableBytes> live = ReadOnlyRegions(checkpoint.all_tensor_bytes());
  for (size_t owner = 0; owner < delta.payloads.size(); ++owner) {
    const auto found = runtime.backend->Prepare(checkpoint.layout(), {&delta.payloads[owner], 1}, {&map, live, {}},
                                                {.threads = runtime.threads, .direction = remaining.direction});
    if (found.ok()) continue;
    return CorruptError((delta.folder / delta.manifest.owners[owner].file).string() +
                        ": its digests do not fit the weights, although they are in the state that it starts from: " +
                        found.status().message());
  }
  return CorruptError("the delta does not change what its manifest says: the digests of the result would not agree");
}

// All their changes, in the checkpoint's own order. What they change must be what the manifests say, in both lanes: with
// the scan before, this proves the result without reading it back.
Result<uint64_t> StreamChanges(const Runtime& runtime, const Checkpoint& checkpoint, const RemainingDeltas& remaining,
                               PatchSink* sink) {
  XORBIT_ASSIGN_OR_RETURN(const DecodedChain decoded, DecodedChain::Open(*runtime.backend, remaining.deltas));
  XORBIT_ASSIGN_OR_RETURN(const auto owners, PlanOwners(checkpoint.layout(), 1, Split::kWhole));
  const std::vector<ConstBytes> live = checkpoint.all_tensor_bytes();
  std::vector<std::unique_ptr<DecodedSource>> sources;
  std::vector<PatchInput> inputs;
  for (const SegmentMap& map : owners.front()) {
    sources.push_back(decoded.Into(map, ValueSide::kBase, SegmentBytes::InTensors(map, live)));
    inputs.push_back({&map, sources.back().get()});
  }
  XORBIT_ASSIGN_OR_RETURN(const PatchTotals totals, StreamPatches(checkpoint, inputs, runtime.threads, runtime.progress, sink));
  if (remaining.from + totals.change != remaining.to) {
    return ExplainMismatch(runtime, checkpoint, remaining);
  }
  return totals.change_count;
}

// Identifies the change in a journal: the payloads that make it up.
JournalIdentity IdentityOf(const RemainingDeltas& remaining) {
  Sha256 hash;
  for (const Delta& delta : remaining.deltas) {
    for (const ManifestOwner& owner : delta.manifest.owners) hash.Update(owner.sha256);
  }
  return {hash.Finish(), JournalIdentity::States{remaining.from, remaining.to}};
}

PatchPlan PlanOf(const Runtime& runtime, RemainingDeltas found) {
  const auto remaining = std::make_shared<const RemainingDeltas>(std::move(found));  // std::function must be copyable
  PatchPlan plan;
  plan.delta_count = remaining->deltas.size();
  plan.identity = IdentityOf(*remaining);
  plan.digest = remaining->to;
  plan.stream = [&runtime, remaining](const Checkpoint& target, PatchSink* sink) {
    return StreamChanges(runtime, target, *remaining, sink);
  };
  plan.check = [&runtime, remaining](const Checkpoint& result) -> Status {
    const StateDigest state =
        runtime.backend->Scan(result.layout(), result.all_tensor_bytes(), ScanScope::kAll, runtime.threads);
    if (state == remaining->to) return {};
    return RefusedError("the result is not the delta's target: the checkpoint was changed while it was copied; try again");
  };
  return plan;
}

}  // namespace

Result<std::optional<PatchPlan>> PlanChain(const Runtime& runtime, const Checkpoint& checkpoint, std::vector<Delta> chain,
                                           Direction direction) {
  XORBIT_ASSIGN_OR_RETURN(std::optional<RemainingDeltas> remaining,
                          FindRemaining(runtime, checkpoint, std::move(chain), direction));
  if (!remaining) return std::optional<PatchPlan>();
  return std::optional<PatchPlan>(PlanOf(runtime, std::move(*remaining)));
}

PatchPlan PlanRoute(const Runtime& runtime, std::vector<Delta> deltas, Direction first, const StateDigest& from,
                    const StateDigest& to) {
  return PlanOf(runtime, RemainingDeltas{std::move(deltas), from, to, 0, first});
}

}  // namespace xorbit
