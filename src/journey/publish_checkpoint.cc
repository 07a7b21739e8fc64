// checkpoint -> diff against the newest version -> payloads, receipts, manifest -> | decided | -> folds.
#include "base/staged_folder.h"
#include "base/text.h"
#include "journey/store_journey.h"
#include "publish/decide.h"
#include "publish/fold_publisher.h"
#include "publish/rank_publisher.h"
#include "store/anchor.h"
#include "store/fetch.h"
#include "tensor/fingerprint.h"

namespace xorbit {
namespace {

// The checkpoint's weights and the small files that a model needs beside them, whole.
Status StoreAnchor(Stream& stream, uint64_t version, const Checkpoint& checkpoint) {
  std::vector<MappedFile> others;
  std::vector<AnchorSource> files;
  for (const CheckpointFile& file : checkpoint.files()) files.push_back({file.path.filename().string(), file.map.bytes()});
  if (checkpoint.is_folder()) {
    std::error_code error;
    for (const auto& entry : fs::directory_iterator(checkpoint.path(), error)) {
      const std::string name = entry.path().filename().string();
      if (!entry.is_regular_file() || entry.path().extension() == ".safetensors" || name.front() == '.') continue;
      XORBIT_ASSIGN_OR_RETURN(MappedFile file, MappedFile::Open(entry.path()));
      others.push_back(std::move(file));
      files.push_back({name, others.back().bytes()});
    }
    if (error) return ErrnoError("cannot list '" + checkpoint.path().string() + "'", error.value());
  }
  return PutAnchor(stream, version, files);
}

Result<Stream> CreateStream(const Runtime& runtime, ObjectStore& store, const std::string& stream_id,
                            const Checkpoint& checkpoint, const LayoutRules& rules) {
  const Stage stage(runtime.timers, "create stream");
  XORBIT_ASSIGN_OR_RETURN(const Layout layout, ApplyRules(checkpoint.layout(), rules));
  const std::vector<ConstBytes> bytes = checkpoint.all_tensor_bytes();
  StreamInfo info;
  info.stream_id = stream_id;
  info.base_fingerprint = BaseFingerprint(layout, bytes, runtime.threads);
  info.base = runtime.backend->Scan(layout, bytes, ScanScope::kAll, runtime.threads);
  info.frozen = runtime.backend->Scan(layout, bytes, ScanScope::kFrozen, runtime.threads);
  info.layout_digest = layout.digest();
  XORBIT_ASSIGN_OR_RETURN(Stream stream, Stream::Create(store, info, layout));
  XORBIT_RETURN_IF_ERROR(StoreAnchor(stream, 0, checkpoint));
  return stream;
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

// The newest anchor, fetched into `folder`.
Result<KnownCheckpoint> FetchBase(const Runtime& runtime, Stream& stream, const fs::path& folder) {
  const Stage stage(runtime.timers, "fetch anchor");
  XORBIT_ASSIGN_OR_RETURN(const std::vector<uint64_t> anchors, AnchorVersions(stream));
  if (anchors.empty()) {
    return RefusedError("the store holds no anchor to compare with; name a checkpoint that was published with --base");
  }
  XORBIT_RETURN_IF_ERROR(FetchAnchor(runtime, stream, anchors.back(), folder).status());
  XORBIT_ASSIGN_OR_RETURN(Checkpoint checkpoint, Checkpoint::Open(folder));
  return KnownCheckpoint{std::move(checkpoint), anchors.back()};
}

// One publisher for each owner, all of them at the stream's newest version.
Result<std::vector<RankPublisher>> MakePublishers(const Runtime& runtime, Stream& stream, const KnownCheckpoint& base,
                                                  const DeltaOptions& options) {
  const Stage stage(runtime.timers, "baseline");
  XORBIT_ASSIGN_OR_RETURN(auto owners, PlanOwners(stream.layout(), options.owner_count, options.split));
  XORBIT_ASSIGN_OR_RETURN(const uint64_t newest, stream.Newest());
  XORBIT_ASSIGN_OR_RETURN(const std::vector<Hop> route, stream.Route(base.version, newest));
  XORBIT_ASSIGN_OR_RETURN(const std::vector<Delta> chain, FetchRoute(stream, route, {.threads = runtime.threads}));
  PublishOptions publish;
  publish.codec = options.codec.value_or(CodecId::kSparse);
  publish.encode = options.encode;
  publish.encode.threads = runtime.threads;
  publish.timers = runtime.timers;
  std::vector<RankPublisher> publishers;
  for (RankPlan& plan : PlansOf(std::move(owners))) {
    RankPublisher publisher =
        RankPublisher::Make(stream, *runtime.backend, std::move(plan), base.checkpoint.all_tensor_bytes(), publish);
    XORBIT_RETURN_IF_ERROR(publisher.CatchUp(newest, chain));
    publishers.push_back(std::move(publisher));
  }
  return publishers;
}

// Unused objects of earlier tries must not be taken for ours: the id says what is published from what.
std::string PublicationIdOf(const StateDigest& base, const StateDigest& target) {
  return "p" + ToText(base).substr(0, 8) + ToText(target).substr(0, 16);
}

Status PublishNext(const Runtime& runtime, Stream& stream, const Checkpoint& checkpoint, const KnownCheckpoint& base,
                   const PublishRequest& request, PublishedCheckpoint* published) {
  XORBIT_ASSIGN_OR_RETURN(std::vector<RankPublisher> publishers, MakePublishers(runtime, stream, base, request.delta));
  XORBIT_ASSIGN_OR_RETURN(const auto parent, stream.Record(publishers.front().version()));
  XORBIT_ASSIGN_OR_RETURN(const uint64_t next, stream.NextFree());
  const std::vector<ConstBytes> bytes = checkpoint.all_tensor_bytes();
  const StateDigest state = runtime.backend->Scan(stream.layout(), bytes, ScanScope::kAll, runtime.threads);
  const PublicationPlace place = {parent->version, next, PublicationIdOf(parent->target, state)};
  for (RankPublisher& publisher : publishers) XORBIT_RETURN_IF_ERROR(publisher.ContributeTensors(place, bytes));
  // Fence: the delta is in the store; from here on its version is decided once, by whoever is first.
  XORBIT_ASSIGN_OR_RETURN(const Manifest manifest, stream.Seal(place));
  if (manifest.target != state) {
    return RefusedError("a frozen tensor changed, or the checkpoint did while it was read: nothing was published");
  }
  XORBIT_ASSIGN_OR_RETURN(const VersionRecord decided, stream.Decide(CommitRecord(manifest)));
  for (RankPublisher& publisher : publishers) {
    XORBIT_ASSIGN_OR_RETURN(const bool won, publisher.Settle(decided));
    if (!won) return RefusedError("another publisher decided version " + std::to_string(next) + "; publish again");
  }
  published->version = next;
  published->state = state;
  for (const ManifestOwner& owner : manifest.owners) published->payload_bytes += owner.byte_count;
  published->manifest = manifest;
  const Stage stage(runtime.timers, "folds");
  XORBIT_ASSIGN_OR_RETURN(published->fold_count, PublishFolds(stream, publishers, request.marks, {}));
  return {};
}

}  // namespace

Result<PublishedCheckpoint> PublishCheckpoint(const Runtime& runtime, ObjectStore& store, const PublishRequest& request) {
  XORBIT_ASSIGN_OR_RETURN(const Checkpoint checkpoint, OpenSettled(request.checkpoint));
  PublishedCheckpoint published;
  Result<Stream> opened = Stream::Open(store, request.stream_id);
  if (!opened.ok() && opened.status().code() != Code::kNotFound) return opened.status();
  std::optional<KnownCheckpoint> base;
  if (!opened.ok()) {
    const std::string id = request.stream_id.empty() ? std::string(kDefaultStreamId) : request.stream_id;
    XORBIT_ASSIGN_OR_RETURN(const Checkpoint first, OpenSettled(request.base.value_or(request.checkpoint)));
    opened = CreateStream(runtime, store, id, first, request.delta.rules);
    XORBIT_RETURN_IF_ERROR(opened.status());
    published.created = true;
  }
  Stream stream = std::move(opened).value();
  published.stream_id = stream.info().stream_id;
  published.state = stream.info().base;
  if (published.created && !request.base) return published;

  XORBIT_RETURN_IF_ERROR(
      RequireSameLayout(checkpoint.layout(), Quoted(request.checkpoint.string()), stream.layout(), "the stream"));
  // Never published: goes away with this call.
  XORBIT_ASSIGN_OR_RETURN(const StagedFolder scratch,
                          StagedFolder::Make(*runtime.file_ops, fs::temp_directory_path() / "xorbit-anchor"));
  if (request.base) {
    XORBIT_ASSIGN_OR_RETURN(base, OpenBase(runtime, stream, *request.base));
  } else {
    XORBIT_ASSIGN_OR_RETURN(base, FetchBase(runtime, stream, scratch.path() / "full"));
  }
  XORBIT_RETURN_IF_ERROR(PublishNext(runtime, stream, checkpoint, *base, request, &published));
  if (request.with_anchor) XORBIT_RETURN_IF_ERROR(StoreAnchor(stream, published.version, checkpoint));
  return published;
}

}  // namespace xorbit
