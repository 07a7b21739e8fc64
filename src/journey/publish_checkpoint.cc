// checkpoint -> diff against the newest version -> payloads, receipts, manifest -> | decided | -> folds.
#include <algorithm>
#include <span>

#include "base/staged_folder.h"
#include "base/text.h"
#include "journey/anchor_files.h"
#include "journey/store_journey.h"
#include "publish/decide.h"
#include "publish/fold_publisher.h"
#include "publish/rank_publisher.h"
#include "store/fetch.h"
#include "tensor/fingerprint.h"

namespace xorbit {
namespace {

Result<Stream> CreateStream(const Runtime& runtime, ObjectStore& store, const std::string& stream_id,
                            const Checkpoint& checkpoint, const LayoutRules& rules) {
  const Stage stage(runtime.timers, "create stream");
  XORBIT_ASSIGN_OR_RETURN(const AnchorFiles whole, AnchorFiles::Of(checkpoint));
  XORBIT_ASSIGN_OR_RETURN(const Layout layout, ApplyRules(checkpoint.layout(), rules));
  const std::vector<ConstBytes> bytes = checkpoint.all_tensor_bytes();
  StreamInfo info;
  info.stream_id = stream_id;
  info.base_fingerprint = BaseFingerprint(layout, bytes, runtime.threads);
  info.base = runtime.backend->Scan(layout, bytes, ScanScope::kAll, runtime.threads);
  info.frozen = runtime.backend->Scan(layout, bytes, ScanScope::kFrozen, runtime.threads);
  info.layout_digest = layout.digest();
  // Before the stream is there: whoever finds it finds version 0 whole, and what a kill leaves before is in nobody's way.
  XORBIT_RETURN_IF_ERROR(whole.StoreFirst(store, stream_id, info.base));
  Result<Stream> stream = Stream::Create(store, info, layout);
  if (stream.status().code() != Code::kExists) return stream;
  return RefusedError("another publisher has just begun stream " + Quoted(stream_id) + ": publish again, as its next version");
}

// Whether `path` is version 0 of a stream that nobody has published into, because its first publish was interrupted. Whatever
// of it is missing in the store is stored.
Result<bool> FinishStream(const Runtime& runtime, Stream& stream, const fs::path& path, bool was_interrupted) {
  XORBIT_ASSIGN_OR_RETURN(const std::vector<uint64_t> anchors, AnchorVersions(stream));
  if (!anchors.empty() && !was_interrupted) return false;
  XORBIT_ASSIGN_OR_RETURN(const Checkpoint checkpoint, OpenSettled(path));
  if (checkpoint.layout().digest() != stream.layout().digest()) return false;
  const StateDigest state =
      runtime.backend->Scan(stream.layout(), checkpoint.all_tensor_bytes(), ScanScope::kAll, runtime.threads);
  if (state != stream.info().base) return false;
  if (anchors.empty()) {
    XORBIT_ASSIGN_OR_RETURN(const AnchorFiles whole, AnchorFiles::Of(checkpoint));
    XORBIT_RETURN_IF_ERROR(whole.Store(stream, 0));
  }
  XORBIT_ASSIGN_OR_RETURN(const uint64_t newest, stream.Newest());
  return newest == 0;
}

// What is frozen was decided when the stream was made; to be asked for the same again is fine.
Status CheckRules(const Layout& layout, const LayoutRules& rules) {
  if (rules.frozen.empty()) return {};
  std::vector<TensorSpec> thawed = layout.tensors();
  for (TensorSpec& tensor : thawed) tensor.frozen = false;
  XORBIT_ASSIGN_OR_RETURN(const Layout all, Layout::Make(std::move(thawed), layout.groups()));
  XORBIT_ASSIGN_OR_RETURN(const Layout asked, ApplyRules(all, rules));
  for (size_t i = 0; i < asked.tensors().size(); ++i) {
    if (asked.tensors()[i].frozen == layout.tensors()[i].frozen) continue;
    return RefusedError("tensor " + Quoted(asked.tensors()[i].name) + (layout.tensors()[i].frozen ? " is" : " is not") +
                        " frozen in this stream, which was decided when it was made: publish without --frozen");
  }
  return {};
}

// A checkpoint that is some version of the stream, opened, and which one.
struct KnownCheckpoint {
  Checkpoint checkpoint;
  uint64_t version = 0;
};

Result<KnownCheckpoint> OpenBase(const Runtime& runtime, Stream& stream, const fs::path& path) {
  XORBIT_ASSIGN_OR_RETURN(Checkpoint checkpoint, OpenSettled(path));
  XORBIT_RETURN_IF_ERROR(RequireSameLayout(checkpoint.layout(), Quoted(path.string()), stream.layout(), "the stream"));
  const StateDigest state =
      runtime.backend->Scan(stream.layout(), checkpoint.all_tensor_bytes(), ScanScope::kAll, runtime.threads);
  XORBIT_ASSIGN_OR_RETURN(const std::optional<uint64_t> version, VersionOfState(stream, state));
  if (!version) {
    return RefusedError(Quoted(path.string()) + " is no version of stream " + Quoted(stream.info().stream_id) +
                        ": its state digest is " + ToText(state));
  }
  return KnownCheckpoint{std::move(checkpoint), *version};
}

// The newest whole version, fetched into `folder`.
Result<KnownCheckpoint> FetchBase(const Runtime& runtime, Stream& stream, const fs::path& folder) {
  const Stage stage(runtime.timers, "fetch anchor");
  XORBIT_ASSIGN_OR_RETURN(std::vector<uint64_t> anchors, AnchorVersions(stream));
  std::ranges::reverse(anchors);
  Result<FetchedAnchor> fetched = FetchFirstWhole(runtime, stream, anchors, folder);
  if (!fetched.ok()) return fetched.status().WithContext("nothing to compare with; name a published checkpoint with --base");
  XORBIT_ASSIGN_OR_RETURN(Checkpoint checkpoint, Checkpoint::Open(folder));
  return KnownCheckpoint{std::move(checkpoint), fetched->version};
}

Result<StagedFolder> MakeScratch(const Runtime& runtime) {
  std::error_code error;
  const fs::path place = fs::temp_directory_path(error);
  if (error) return ErrnoError("cannot find a folder for temporary files; set TMPDIR to one", error.value());
  return StagedFolder::MakeScratch(*runtime.file_ops, place / "xorbit-anchor");
}

// One publisher for each owner, all of them at the stream's newest version.
Result<std::vector<RankPublisher>> MakePublishers(const Runtime& runtime, Stream& stream, const KnownCheckpoint& base,
                                                  const DeltaOptions& options) {
  const Stage stage(runtime.timers, "baseline");
  XORBIT_ASSIGN_OR_RETURN(auto owners, PlanOwners(stream.layout(), options.owner_count, options.split));
  XORBIT_ASSIGN_OR_RETURN(const uint64_t newest, stream.Newest());
  XORBIT_ASSIGN_OR_RETURN(const FetchedRoute way, FetchWay(stream, base.version, newest, {.threads = runtime.threads}));
  PublishOptions publish;
  publish.codec = options.codec.value_or(CodecId::kSparse);
  publish.encode = options.encode;
  publish.encode.threads = runtime.threads;
  publish.timers = runtime.timers;
  std::vector<RankPublisher> publishers;
  for (RankPlan& plan : PlansOf(std::move(owners))) {
    RankPublisher publisher =
        RankPublisher::Make(stream, *runtime.backend, std::move(plan), base.checkpoint.all_tensor_bytes(), publish);
    XORBIT_RETURN_IF_ERROR(publisher.CatchUp(newest, way.deltas));
    publishers.push_back(std::move(publisher));
  }
  return publishers;
}

// Unused objects of earlier tries must not be taken for ours: the id says what is published from what.
std::string PublicationIdOf(const StateDigest& base, const StateDigest& target, int attempt) {
  const std::string id = "p" + ToText(base).substr(0, 8) + ToText(target).substr(0, 16);
  return attempt == 1 ? id : id + "-" + std::to_string(attempt);
}

// Receipts and seals a publication to version `next`. One that was interrupted is finished by the same call; if it had other
// owners or another codec its receipts are in the way, and the next id is tried.
Result<Manifest> Contribute(const Runtime& runtime, Stream& stream, std::span<RankPublisher> publishers, uint64_t next,
                            const Checkpoint& checkpoint) {
  constexpr int kMaxAttempts = 100;
  const uint64_t base = publishers.front().version();
  XORBIT_ASSIGN_OR_RETURN(const VersionRecord parent, stream.DecidedRecord(base));
  const std::vector<ConstBytes> bytes = checkpoint.all_tensor_bytes();
  const StateDigest state = runtime.backend->Scan(stream.layout(), bytes, ScanScope::kAll, runtime.threads);
  const auto contribute = [&](const PublicationPlace& place) -> Result<Manifest> {
    for (RankPublisher& publisher : publishers) XORBIT_RETURN_IF_ERROR(publisher.ContributeTensors(place, bytes));
    return stream.Seal(place);
  };
  for (int attempt = 1;; ++attempt) {
    Result<Manifest> manifest = contribute({base, next, PublicationIdOf(parent.target, state, attempt)});
    if (manifest.ok() && manifest->target != state) {
      return RefusedError("a frozen tensor changed, or the checkpoint did while it was read: nothing was published");
    }
    if (manifest.status().code() != Code::kExists || attempt == kMaxAttempts) return manifest;
  }
}

Status PublishNext(const Runtime& runtime, Stream& stream, const Checkpoint& checkpoint, const KnownCheckpoint& base,
                   const PublishRequest& request, PublishedCheckpoint* published) {
  XORBIT_ASSIGN_OR_RETURN(std::vector<RankPublisher> publishers, MakePublishers(runtime, stream, base, request.delta));
  XORBIT_ASSIGN_OR_RETURN(const uint64_t next, stream.NextFree());
  XORBIT_RETURN_IF_ERROR(stream.CheckFree(next));
  XORBIT_ASSIGN_OR_RETURN(const Manifest manifest, Contribute(runtime, stream, publishers, next, checkpoint));
  // Fence: the delta is in the store; from here on its version is decided once, by whoever is first.
  const Result<VersionRecord> decision = stream.Decide(CommitRecord(manifest));
  if (decision.status().code() == Code::kIo) {
    return decision.status().WithContext("version " + std::to_string(next) + " may be published or not, see the log");
  }
  XORBIT_ASSIGN_OR_RETURN(const VersionRecord decided, decision);
  for (RankPublisher& publisher : publishers) {
    XORBIT_ASSIGN_OR_RETURN(const bool won, publisher.Settle(decided));
    if (!won) return RefusedError("another publisher decided version " + std::to_string(next) + "; publish again");
  }
  published->version = next;
  published->state = manifest.target;
  for (const ManifestOwner& owner : manifest.owners) published->payload_bytes += owner.byte_count;
  published->manifest_bytes = StreamManifestText(manifest).size();
  published->manifest = manifest;
  const Stage stage(runtime.timers, "folds");
  const Result<size_t> fold_count = PublishFolds(stream, publishers, request.marks, {});
  published->fold_count = fold_count.ok() ? *fold_count : 0;
  published->folds = fold_count.status();
  return {};
}

}  // namespace

Result<PublishedCheckpoint> PublishCheckpoint(const Runtime& runtime, ObjectStore& store, const PublishRequest& request) {
  XORBIT_ASSIGN_OR_RETURN(const Checkpoint checkpoint, OpenSettled(request.checkpoint));
  std::optional<AnchorFiles> whole;  // looked at first: what cannot be stored is refused before anything is published
  if (request.with_anchor) {
    XORBIT_ASSIGN_OR_RETURN(whole, AnchorFiles::Of(checkpoint));
  }
  const fs::path first = request.base.value_or(request.checkpoint);
  PublishedCheckpoint published;
  Result<Stream> opened = Stream::Open(store, request.stream_id);
  const bool was_interrupted = opened.status().code() == Code::kNotFound;
  if (was_interrupted) opened = Stream::Finish(store, request.stream_id);
  if (!opened.ok() && opened.status().code() != Code::kNotFound) return opened.status();
  if (opened.ok()) {
    XORBIT_RETURN_IF_ERROR(CheckRules(opened->layout(), request.delta.rules));
    XORBIT_ASSIGN_OR_RETURN(published.created, FinishStream(runtime, *opened, first, was_interrupted));
  } else {
    const std::string id = request.stream_id.empty() ? std::string(kDefaultStreamId) : request.stream_id;
    XORBIT_ASSIGN_OR_RETURN(const Checkpoint version_0, OpenSettled(first));
    XORBIT_RETURN_IF_ERROR(RequireSameLayout(checkpoint.layout(), Quoted(request.checkpoint.string()), version_0.layout(),
                                             Quoted(first.string())));
    opened = CreateStream(runtime, store, id, version_0, request.delta.rules);
    XORBIT_RETURN_IF_ERROR(opened.status());
    published.created = true;
  }
  Stream stream = std::move(opened).value();
  published.stream_id = stream.info().stream_id;
  published.state = stream.info().base;
  if (published.created && !request.base) return published;

  XORBIT_RETURN_IF_ERROR(
      RequireSameLayout(checkpoint.layout(), Quoted(request.checkpoint.string()), stream.layout(), "the stream"));
  XORBIT_ASSIGN_OR_RETURN(const StagedFolder scratch, MakeScratch(runtime));  // never published: goes away with this call
  std::optional<KnownCheckpoint> base;
  if (request.base) {
    XORBIT_ASSIGN_OR_RETURN(base, OpenBase(runtime, stream, *request.base));
  } else {
    XORBIT_ASSIGN_OR_RETURN(base, FetchBase(runtime, stream, scratch.path() / "full"));
  }
  XORBIT_RETURN_IF_ERROR(PublishNext(runtime, stream, checkpoint, *base, request, &published));
  if (!whole) return published;
  const Status stored = whole->Store(stream, published.version);
  if (stored.ok()) return published;
  return stored.WithContext("version " + std::to_string(published.version) + " is published, but could not be stored whole");
}

}  // namespace xorbit
