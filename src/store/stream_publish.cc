// The publishing side of a stream: payloads, receipts, and the record that decides; stream_seal.cc stands between. The order of
// the puts is the protocol; docs/design/publishing.md says why it is safe, and commit_model_test.cc checks it.
#include "base/checksum_field.h"
#include "store/checked_text.h"
#include "store/head_hint.h"
#include "store/stream_state.h"

namespace xorbit {

Status Stream::PutPayload(const PublicationPlace& place, const Payload& payload) {
  XORBIT_RETURN_IF_ERROR(CheckPlace(place));
  ManifestOwner owner;
  owner.file = PayloadFileName(payload.info.owner_index, payload.sha256);
  std::vector<ConstBytes> pieces = {payload.head};
  pieces.insert(pieces.end(), payload.body.begin(), payload.body.end());
  return state_->store.PutNew(PayloadKey(state_->info.stream_id, place, owner), pieces);
}

Status Stream::CheckPayloads(const PublicationPlace& place, const std::vector<ManifestOwner>& owners) {
  for (const ManifestOwner& owner : owners) {
    const Result<ObjectInfo> object = state_->store.Stat(PayloadKey(state_->info.stream_id, place, owner));
    if (!object.ok() && object.status().code() == Code::kNotFound)
      return RefusedError("payload '" + owner.file + "' is not there");
    if (!object.ok()) return object.status();
    if (object->byte_count != owner.byte_count)
      return RefusedError("payload '" + owner.file + "' has another size than stated");
  }
  return {};
}

Status Stream::PutReceipt(const Receipt& receipt) {
  XORBIT_RETURN_IF_ERROR(CheckPlace(receipt.place));
  XORBIT_RETURN_IF_ERROR(CheckPayloads(receipt.place, {receipt.owner}));
  const std::string text = WriteReceipt(receipt);
  if (auto read_back = ParseReceipt(text); !read_back.ok()) return UsageError("the receipt " + read_back.status().message());
  return PutText(state_->store, ReceiptKey(state_->info.stream_id, receipt.place, receipt.owner_index), text);
}

Status Stream::PutManifest(const Manifest& manifest) {
  if (!manifest.stream) return UsageError("a stream's manifest must say where it belongs");
  const PublicationPlace place = PlaceOf(*manifest.stream);
  XORBIT_RETURN_IF_ERROR(CheckPlace(place));
  const std::string text = StreamManifestText(manifest);
  if (auto read_back = ParseManifest(text); !read_back.ok()) return UsageError("the manifest: " + read_back.status().message());
  XORBIT_RETURN_IF_ERROR(CheckFit(manifest, text));
  XORBIT_RETURN_IF_ERROR(CheckPayloads(place, manifest.owners));
  return state_->store.PutNew(ManifestKey(state_->info.stream_id, place), AsBytes(text));
}

// Collectors keep a way to every version that may become a parent.
Status Stream::CheckParent(const VersionRecord& record) {
  if (record.version - *record.parent <= state_->info.resume_window) return {};
  for (uint64_t between = record.version - 1; between > *record.parent; --between) {
    XORBIT_ASSIGN_OR_RETURN(const std::optional<VersionRecord> other, Record(between));
    if (!other || other->committed()) {
      return RefusedError("version " + std::to_string(*record.parent) + " is too old to continue from: at most " +
                          std::to_string(state_->info.resume_window) + " versions back");
    }
  }
  return {};
}

// What a record claims, proven before it is written: then every committed version exists whole.
Status Stream::CheckCommit(const VersionRecord& record) {
  const std::string version = "version " + std::to_string(record.version);
  if (!record.parent || *record.parent >= record.version) return UsageError(version + " needs a parent before it");
  if (record.layout_digest != state_->layout.digest()) return RefusedError(version + " is for another layout");
  XORBIT_RETURN_IF_ERROR(CheckParent(record));
  const PublicationPlace place{*record.parent, record.version, record.publication_id};
  const Result<std::string> text = ManifestText(place);
  if (!text.ok() && text.status().code() == Code::kNotFound)
    return RefusedError(version + " is not sealed: its manifest is not there");
  if (!text.ok()) return text.status();
  auto manifest = ParseManifest(*text);
  if (!manifest.ok()) return manifest.status().WithContext(ManifestKey(state_->info.stream_id, place));
  if (!manifest->stream || CommitRecord(*manifest) != record || Sha256Of(AsBytes(*text)) != record.manifest_sha256) {
    return RefusedError(version + "'s record is not of the manifest that is there");
  }
  XORBIT_ASSIGN_OR_RETURN(const VersionRecord base, CommittedRecord(*record.parent));
  if (manifest->base != base.target) return RefusedError(version + " does not start from what its parent is");
  XORBIT_ASSIGN_OR_RETURN(const bool dead, IsDead(place));
  if (dead) return RefusedError(version + "'s publication was given up");
  return CheckPayloads(place, manifest->owners);
}

// Once: what comes later comes with records that this process reads or writes, or under the hint.
Result<DecidedTrace> Stream::FindTraces() {
  {
    const std::lock_guard lock(state_->mutex);
    if (state_->trace) return *state_->trace;
  }
  const std::string& id = state_->info.stream_id;
  XORBIT_ASSIGN_OR_RETURN(const std::vector<ObjectInfo> objects, state_->store.List(id + "/v"));
  DecidedTrace trace;
  for (const ObjectInfo& object : objects) {
    const auto version = DecidedBefore(id, object.key);
    if (version && *version >= trace.version) trace = {*version, object.key};
  }
  XORBIT_RETURN_IF_ERROR(ReadTombstones());
  const std::lock_guard lock(state_->mutex);
  const auto listed = [&](uint64_t version) {  // collectors give up nothing that leads to an undecided version
    if (version > trace.version) trace = {version, id + "/tombstones"};
  };
  for (const PublicationPlace& place : state_->dead) listed(place.target_version);
  for (const uint64_t version : state_->dead_anchors) listed(version);
  state_->trace = trace;
  return trace;
}

Status Stream::CheckFree(uint64_t version) {
  XORBIT_ASSIGN_OR_RETURN(const DecidedTrace listed, FindTraces());
  const std::string& id = state_->info.stream_id;
  DecidedTrace trace{0, HeadKey(id)};
  const Result<std::string> text = GetText(state_->store, trace.key, kMaxHeadHintBytes);
  if (const Result<uint64_t> hint = text.ok() ? ParseHeadHint(*text) : Result<uint64_t>(text.status()); hint.ok()) {
    trace.version = *hint;
  } else if (text.status().code() == Code::kIo) {
    return text.status();
  }
  if (trace.version < version) trace = listed;
  if (trace.version < version) return {};
  // Another publisher may have decided it just now: records come before their traces.
  XORBIT_ASSIGN_OR_RETURN(const std::optional<VersionRecord> record, Record(version));
  if (record) return {};
  return CorruptError(VersionRecordKey(id, version) + " is missing, although " + trace.key + " tells that version " +
                      std::to_string(trace.version) + " was decided: restore it from a copy, or begin a new stream");
}

Result<VersionRecord> Stream::Decide(const VersionRecord& record) {
  if (record.version == 0 || record.version > kMaxVersion) {
    return UsageError("version " + std::to_string(record.version) + " cannot be decided");
  }
  XORBIT_ASSIGN_OR_RETURN(const std::optional<VersionRecord> decided, Record(record.version));
  if (decided) return *decided;
  XORBIT_ASSIGN_OR_RETURN(const std::optional<VersionRecord> previous, Record(record.version - 1));
  if (!previous) return RefusedError("version " + std::to_string(record.version - 1) + " must be decided first");
  XORBIT_RETURN_IF_ERROR(CheckFree(record.version));
  if (record.committed()) XORBIT_RETURN_IF_ERROR(CheckCommit(record));
  const std::string text = WriteVersionRecord(record.committed() ? record : AbortRecord(record.version));
  const std::string& id = state_->info.stream_id;
  const Status put = PutText(state_->store, VersionRecordKey(id, record.version), text);  // decided from here on
  if (!put.ok() && put.code() != Code::kExists) return put;
  XORBIT_ASSIGN_OR_RETURN(const std::optional<VersionRecord> final_record, Record(record.version));
  if (!final_record) return IoError("the record of version " + std::to_string(record.version) + " vanished");
  // A hint: whoever finds it old looks further, and without it too. But it is a second witness, should the record get lost.
  (void)state_->store.Replace(HeadKey(id), AsBytes(WithChecksum(WriteHeadHint(record.version))));
  return *final_record;
}

Status Stream::PutTombstones(const Tombstones& tombstones) {
  const std::string text = WriteTombstones(tombstones);
  if (auto read_back = ParseTombstones(text); !read_back.ok())
    return UsageError("the tombstones: " + read_back.status().message());
  XORBIT_ASSIGN_OR_RETURN(const uint64_t count, TombstoneCount());
  if (tombstones.number != count + 1)
    return ExistsError("tombstones " + std::to_string(tombstones.number) + " are there already");
  return PutText(state_->store, TombstonesKey(state_->info.stream_id, tombstones.number), text);
}

}  // namespace xorbit
