// From all ranks' receipts to a sealed manifest: they are there, belong together, cover the layout once, and start from the
// parent's state.
#include <set>

#include "base/text.h"
#include "payload/payload_reader.h"
#include "store/checked_text.h"
#include "store/receipt_set.h"
#include "store/stream_state.h"
#include "tensor/ownership.h"

namespace xorbit {

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

}  // namespace xorbit
