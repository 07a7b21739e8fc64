#include "publish/rank_publisher.h"

#include <string>

#include "payload/manifest.h"
#include "payload/payload_reader.h"
#include "payload/payload_writer.h"

namespace xorbit {
namespace {

// The rank's own memory, seen as its segments.
Result<std::vector<SegmentBytes>> OwnedBytes(const RankPlan& plan, std::span<const ConstBytes> held) {
  if (held.size() != plan.declared_count) {
    return UsageError("rank " + std::to_string(plan.owner_index) + " declared " + std::to_string(plan.declared_count) +
                      " parts, but the bytes of " + std::to_string(held.size()) + " were given");
  }
  std::vector<SegmentBytes> bytes;
  for (size_t s = 0; s < plan.owned.size(); ++s) {
    std::vector<ConstBytes> parts;
    parts.reserve(plan.declared[s].size());
    for (const uint32_t declared_index : plan.declared[s]) parts.push_back(held[declared_index]);
    XORBIT_ASSIGN_OR_RETURN(SegmentBytes segment, SegmentBytes::InParts(plan.owned[s], parts));
    bytes.push_back(std::move(segment));
  }
  return bytes;
}

Sha256Digest PartsDigestOf(const Layout& layout, std::span<const SegmentMap> maps) {
  std::vector<const SegmentMap*> pointers;
  for (const SegmentMap& map : maps) pointers.push_back(&map);
  return PartsDigest(layout, pointers);
}

}  // namespace

RankPublisher::RankPublisher(Stream& stream, const Backend& backend, RankPlan plan, PublishOptions options)
    : stream_(&stream), backend_(&backend), plan_(std::make_unique<RankPlan>(std::move(plan))), options_(options) {}

RankPublisher RankPublisher::Make(Stream& stream, const Backend& backend, RankPlan plan, TensorBytes served,
                                  PublishOptions options) {
  RankPublisher publisher(stream, backend, std::move(plan), options);
  publisher.baseline_ = Baseline::CopyOf(publisher.plan_->owned, served, options.encode.threads);
  return publisher;
}

Status RankPublisher::Contribute(const PublicationPlace& place, std::span<const ConstBytes> held) {
  if (place.base_version != version_) {
    return UsageError("rank " + std::to_string(plan_->owner_index) + " stands at version " + std::to_string(version_) +
                      " and cannot publish a delta from version " + std::to_string(place.base_version));
  }
  const Layout& layout = stream_->layout();
  const int threads = options_.encode.threads;
  XORBIT_ASSIGN_OR_RETURN(const std::vector<SegmentBytes> new_bytes, OwnedBytes(*plan_, held));
  EncodedOwner encoded;
  {
    const Stage stage(options_.timers, "diff + encode");
    XORBIT_ASSIGN_OR_RETURN(
        encoded, backend_->EncodeDiff(layout, plan_->owned, baseline_.bytes(), new_bytes, options_.codec, options_.encode));
  }
  Receipt receipt;
  receipt.place = place;
  receipt.owner_index = plan_->owner_index;
  receipt.owner_count = plan_->owner_count;
  receipt.codec = options_.codec;
  receipt.base_part = encoded.base;
  receipt.parts_sha256 = PartsDigestOf(layout, plan_->owned);
  XORBIT_ASSIGN_OR_RETURN(receipt.witnesses, Witness(held));

  const Stage stage(options_.timers, "hash + store");
  XORBIT_ASSIGN_OR_RETURN(const Payload payload, WritePayload(layout, {options_.codec, plan_->owner_index, plan_->owner_count},
                                                              plan_->owned, std::move(encoded.segments), threads));
  receipt.owner = ManifestOwnerOf(payload);
  receipt.has_digests = payload.has_digests;
  XORBIT_RETURN_IF_ERROR(stream_->PutPayload(place, payload));
  XORBIT_RETURN_IF_ERROR(stream_->PutReceipt(receipt));
  pending_.emplace(Pending{place, FileBytesOf(payload)});
  return {};
}

Result<std::vector<WitnessDigest>> RankPublisher::Witness(std::span<const ConstBytes> held) const {
  std::vector<WitnessDigest> witnesses;
  for (const SharedPart& shared : plan_->shared) {
    XORBIT_ASSIGN_OR_RETURN(const SegmentBytes bytes, SegmentBytes::InParts(shared.map, {&held[shared.declared_index], 1}));
    const SegmentMap* map = &shared.map;
    witnesses.push_back({shared.owner_index, PartsDigest(stream_->layout(), {&map, 1}),
                         backend_->Digest(stream_->layout(), shared.map, bytes, options_.encode.threads)});
  }
  return witnesses;
}

Result<bool> RankPublisher::Settle(const VersionRecord& decided) {
  if (!pending_ || pending_->place.target_version != decided.version) {
    return UsageError("rank " + std::to_string(plan_->owner_index) + " has no contribution to version " +
                      std::to_string(decided.version));
  }
  const Pending pending = std::move(*pending_);
  pending_.reset();
  if (!decided.committed() || decided.publication_id != pending.place.publication_id ||
      decided.parent != pending.place.base_version) {
    return false;
  }
  const Stage stage(options_.timers, "baseline");
  XORBIT_ASSIGN_OR_RETURN(const PayloadView view, ParsePayload(stream_->layout(), pending.payload));
  XORBIT_RETURN_IF_ERROR(baseline_.Forward(*backend_, view, options_.encode.threads));
  version_ = decided.version;
  return true;
}

}  // namespace xorbit
