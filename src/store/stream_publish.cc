// The publishing side of a stream: payloads, receipts, the sealed manifest, and the record that decides. The order of the puts
// is the protocol; docs/design/publishing.md says why it is safe, and commit_model_test.cc checks it.
#include <set>

#include "base/text.h"
#include "payload/payload_reader.h"
#include "store/checked_text.h"
#include "store/head_hint.h"
#include "store/receipt_set.h"
#include "store/stream_state.h"
#include "tensor/ownership.h"

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

Result<std::vector<Receipt>> Stream::ReadReceipts(const PublicationPlace& place) {
  const std::string& id = state_->info.stream_id;
  XORBIT_ASSIGN_OR_RETURN(const std::vector<ObjectInfo> objects, state_->store.List(PlaceFolder(id, place) + "receipt-"));
  if (objects.empty()) return NotFoundError("no rank has delivered its receipt yet");
  std::vector<Receipt> receipts;
  const auto read = [&](const std::string& key) -> Status {
    XORBIT_ASSIGN_OR_RETURN(const std::string text, GetText(state_->store, key, kMaxReceiptBytes));
    auto receipt = ParseReceipt(text);
    if (!receipt.ok()) return receipt.status().WithContext(key);
    if (receipt->place != place || ReceiptKey(id, place, receipt->owner_index) != key) {
      return CorruptError(key + " is of another publication or rank");
    }
    receipts.push_back(std::move(receipt).value());
    return {};
  };
  XORBIT_RETURN_IF_ERROR(read(objects[0].key));
  const uint32_t owner_count = receipts[0].owner_count;
  std::set<std::string> delivered;
  for (const ObjectInfo& object : objects) delivered.insert(object.key);
  for (uint32_t rank = 0; rank < owner_count; ++rank) {
    if (delivered.contains(ReceiptKey(id, place, rank))) continue;
    return NotFoundError("rank " + std::to_string(rank) + " of " + std::to_string(owner_count) +
                         " has not delivered its receipt yet");
  }
  if (objects.size() != owner_count)
    return RefusedError("there are more receipts than the " + std::to_string(owner_count) + " ranks");
  receipts.clear();
  for (uint32_t rank = 0; rank < owner_count; ++rank) XORBIT_RETURN_IF_ERROR(read(ReceiptKey(id, place, rank)));
  return receipts;
}

struct Stream::PayloadHead {
  Buffer bytes;
  PayloadView view;  // of them
};

Result<Stream::PayloadHead> Stream::ReadHead(const PublicationPlace& place, const Receipt& receipt) {
  const std::string key = PayloadKey(state_->info.stream_id, place, receipt.owner);
  PayloadHead head;
  head.bytes.resize(receipt.owner.head_byte_count);
  XORBIT_RETURN_IF_ERROR(state_->store.ReadInto(key, 0, head.bytes));
  if (Sha256Of(head.bytes) != receipt.owner.head_sha256) return CorruptError(key + ": its head does not match its SHA-256");
  auto view = ParsePayloadHead(state_->layout, head.bytes, receipt.owner.byte_count);
  if (!view.ok()) return view.status().WithContext(key);
  if (view->header.owner_index != receipt.owner_index || view->header.owner_count != receipt.owner_count) {
    return RefusedError(key + " is another rank's payload");
  }
  head.view = std::move(view).value();
  return head;
}

// Receipts name parts by their digests alone; whose payload it is knows more.
std::string Stream::NameOf(const PublicationPlace& place, const WitnessFault& fault, const std::vector<Receipt>& receipts) {
  const std::string unknown = "a part of rank " + std::to_string(fault.owner_index) + "'s";
  const Receipt& receipt = receipts[fault.owner_index];
  if (!CheckPayloads(place, {receipt.owner}).ok()) return unknown;
  const Result<PayloadHead> head = ReadHead(place, receipt);
  if (!head.ok()) return unknown;
  for (const PayloadSegment& segment : head->view.segments) {
    for (const Part& part : segment.map.parts()) {
      const auto map = SegmentMap::Make(state_->layout, segment.map.unit_bytes(), segment.map.group(), {part});
      const SegmentMap* const maps[] = {&*map};
      if (PartsDigest(state_->layout, maps) != fault.part_sha256) continue;
      return "tensor " + Quoted(state_->layout.tensors()[part.tensor_index].name);
    }
  }
  return unknown;
}

// Coverage is a property of the parts alone, which a run keeps from version to version: it is proven once, from the payloads'
// heads.
Status Stream::ProveReceipts(const PublicationPlace& place, const std::vector<Receipt>& receipts) {
  Sha256 all_parts;
  std::vector<ManifestOwner> owners;
  for (const Receipt& receipt : receipts) {
    all_parts.Update(receipt.parts_sha256);
    owners.push_back(receipt.owner);
  }
  XORBIT_RETURN_IF_ERROR(CheckPayloads(place, owners));
  const Sha256Digest parts_digest = all_parts.Finish();
  {
    const std::lock_guard lock(state_->mutex);
    if (state_->proven_coverage.contains(parts_digest)) return {};
  }
  std::vector<PayloadHead> heads;
  std::vector<const SegmentMap*> segments;
  for (const Receipt& receipt : receipts) {
    XORBIT_ASSIGN_OR_RETURN(PayloadHead head, ReadHead(place, receipt));
    heads.push_back(std::move(head));
  }
  for (size_t i = 0; i < heads.size(); ++i) {
    std::vector<const SegmentMap*> own;
    for (const PayloadSegment& segment : heads[i].view.segments) own.push_back(&segment.map);
    if (PartsDigest(state_->layout, own) != receipts[i].parts_sha256) {
      return RefusedError("rank " + std::to_string(i) + "'s payload holds other parts than its receipt says");
    }
    segments.insert(segments.end(), own.begin(), own.end());
  }
  if (Status covered = ProveCoverage(state_->layout, segments); !covered.ok()) return RefusedError(covered.message());
  const std::lock_guard lock(state_->mutex);
  state_->proven_coverage.insert(parts_digest);
  return {};
}

Result<Manifest> Stream::Seal(const PublicationPlace& place) {
  XORBIT_RETURN_IF_ERROR(CheckPlace(place));
  XORBIT_ASSIGN_OR_RETURN(const std::vector<Receipt> receipts, ReadReceipts(place));
  XORBIT_RETURN_IF_ERROR(CheckTogether(receipts));
  if (const auto fault = FindWitnessFault(receipts)) return Refusal(*fault, NameOf(place, *fault, receipts));
  XORBIT_ASSIGN_OR_RETURN(const VersionRecord base, CommittedRecord(place.base_version));
  XORBIT_ASSIGN_OR_RETURN(const std::optional<VersionRecord> target, Record(place.target_version));
  Manifest manifest = ManifestOf(state_->info, state_->layout, place, receipts);
  if (!manifest.has_digests) return RefusedError("payloads without digests cannot be published");
  manifest.base = base.target;
  manifest.target = base.target;
  StateDigest held = state_->info.frozen;
  for (const Receipt& receipt : receipts) {
    held += receipt.base_part;
    manifest.target += receipt.owner.change;
  }
  if (held != base.target) {
    return RefusedError("what the ranks started from is not version " + std::to_string(place.base_version) +
                        ": seed their baseline from it");
  }
  if (target && (!target->committed() || target->target != manifest.target)) {
    return RefusedError("version " + std::to_string(place.target_version) + " was decided otherwise: publish for the next one");
  }
  XORBIT_RETURN_IF_ERROR(ProveReceipts(place, receipts));
  const std::string text = StreamManifestText(manifest);
  if (auto read_back = ParseManifest(text); !read_back.ok())
    return RefusedError("the receipts together: " + read_back.status().message());
  XORBIT_RETURN_IF_ERROR(state_->store.PutNew(ManifestKey(state_->info.stream_id, place), AsBytes(text)));
  return manifest;
}

Status Stream::PutManifest(const Manifest& manifest) {
  if (!manifest.stream) return UsageError("a stream's manifest must say where it belongs");
  const PublicationPlace place{manifest.stream->base_version, manifest.stream->target_version, manifest.stream->publication_id};
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

Result<VersionRecord> Stream::Decide(const VersionRecord& record) {
  if (record.version == 0 || record.version > kMaxVersion) {
    return UsageError("version " + std::to_string(record.version) + " cannot be decided");
  }
  XORBIT_ASSIGN_OR_RETURN(const std::optional<VersionRecord> decided, Record(record.version));
  if (decided) return *decided;
  XORBIT_ASSIGN_OR_RETURN(const std::optional<VersionRecord> previous, Record(record.version - 1));
  if (!previous) return RefusedError("version " + std::to_string(record.version - 1) + " must be decided first");
  if (record.committed()) XORBIT_RETURN_IF_ERROR(CheckCommit(record));
  const std::string text = WriteVersionRecord(record.committed() ? record : AbortRecord(record.version));
  const std::string& id = state_->info.stream_id;
  const Status put = PutText(state_->store, VersionRecordKey(id, record.version), text);  // decided from here on
  if (!put.ok() && put.code() != Code::kExists) return put;
  XORBIT_ASSIGN_OR_RETURN(const std::optional<VersionRecord> final_record, Record(record.version));
  if (!final_record) return IoError("the record of version " + std::to_string(record.version) + " vanished");
  // A hint: whoever finds it old looks further, and without it too.
  if (final_record->committed()) (void)state_->store.Replace(HeadKey(id), AsBytes(WriteHeadHint(record.version)));
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
