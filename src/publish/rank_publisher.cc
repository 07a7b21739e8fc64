#include "publish/rank_publisher.h"

#include <cassert>
#include <string>

#include "backend/decoded_chain.h"
#include "payload/payload_reader.h"
#include "publish/contribution.h"

namespace xorbit {
namespace {

// The rank's own memory, seen as a segment of some of its declared parts.
Result<SegmentBytes> HeldBytes(const SegmentMap& map, std::span<const uint32_t> declared, std::span<const ConstBytes> held) {
  std::vector<ConstBytes> parts;
  parts.reserve(declared.size());
  for (const uint32_t declared_index : declared) parts.push_back(held[declared_index]);
  return SegmentBytes::InParts(map, parts);
}

}  // namespace

RankPublisher::RankPublisher(Stream& stream, const Backend& backend, RankPlan plan, PublishOptions options)
    : stream_(&stream), backend_(&backend), plan_(std::make_unique<RankPlan>(std::move(plan))), options_(options) {}

RankPublisher RankPublisher::Make(Stream& stream, const Backend& backend, RankPlan plan, TensorBytes served,
                                  PublishOptions options) {
  RankPublisher publisher(stream, backend, std::move(plan), options);
  publisher.state_ = stream.info().base;
  publisher.baseline_ = Baseline::CopyOf(publisher.plan_->owned, served, options.encode.threads);
  return publisher;
}

Status RankPublisher::Contribute(const PublicationPlace& place, std::span<const ConstBytes> held) {
  if (held.size() != plan_->declared_count) {
    return UsageError("rank " + std::to_string(plan_->owner_index) + " declared " + std::to_string(plan_->declared_count) +
                      " parts, but the bytes of " + std::to_string(held.size()) + " were given");
  }
  std::vector<SegmentBytes> owned;
  for (size_t s = 0; s < plan_->owned.size(); ++s) {
    XORBIT_ASSIGN_OR_RETURN(SegmentBytes bytes, HeldBytes(plan_->owned[s], plan_->declared[s], held));
    owned.push_back(std::move(bytes));
  }
  std::vector<SegmentBytes> shared;
  for (const SharedSegment& segment : plan_->shared) {
    XORBIT_ASSIGN_OR_RETURN(SegmentBytes bytes, HeldBytes(segment.map, segment.declared, held));
    shared.push_back(std::move(bytes));
  }
  return ContributeBytes(place, owned, shared);
}

Status RankPublisher::ContributeTensors(const PublicationPlace& place, TensorBytes tensors) {
  std::vector<SegmentBytes> shared;
  for (const SharedSegment& segment : plan_->shared) shared.push_back(SegmentBytes::InTensors(segment.map, tensors));
  return ContributeBytes(place, InTensors(plan_->owned, tensors), shared);
}

Status RankPublisher::ContributeBytes(const PublicationPlace& place, std::span<const SegmentBytes> owned,
                                      std::span<const SegmentBytes> shared) {
  XORBIT_RETURN_IF_ERROR(RequireVersion(place.base_version, "publish a delta from"));
  XORBIT_RETURN_IF_ERROR(stream_->ProveHeld(version_, state_));
  EncodedOwner encoded;
  {
    const Stage stage(options_.timers, "diff + encode");
    XORBIT_ASSIGN_OR_RETURN(encoded, backend_->EncodeDiff(stream_->layout(), plan_->owned, baseline_.state(), owned,
                                                          options_.codec, options_.encode));
    XORBIT_RETURN_IF_ERROR(baseline_.TakeDue(options_.encode.threads));
    assert(encoded.base == baseline_.Scan(*backend_, stream_->layout(), options_.encode.threads));
    baseline_.set_digest(encoded.base);
  }
  XORBIT_ASSIGN_OR_RETURN(const Payload payload, Store(place, options_.codec, std::move(encoded), Witness(shared)));
  pending_.emplace(Pending{place, FileBytesOf(payload)});
  return {};
}

Status RankPublisher::ContributeFold(const PublicationPlace& place, CodecId codec, const std::vector<Delta>& chain) {
  XORBIT_RETURN_IF_ERROR(RequireVersion(place.target_version, "publish a fold to"));
  XORBIT_ASSIGN_OR_RETURN(const DecodedChain decoded, DecodedChain::Open(*backend_, chain));
  XORBIT_RETURN_IF_ERROR(baseline_.TakeDue(options_.encode.threads));
  if (!baseline_.digest()) baseline_.set_digest(baseline_.Scan(*backend_, stream_->layout(), options_.encode.threads));
  EncodedOwner encoded;
  encoded.base = *baseline_.digest();
  for (size_t i = 0; i < plan_->owned.size(); ++i) {
    const SegmentMap& map = plan_->owned[i];
    const SegmentBytes& values = baseline_.bytes()[i];
    const auto source = decoded.Into(map, ValueSide::kTarget, values);
    XORBIT_ASSIGN_OR_RETURN(EncodedSegment segment, backend_->Encode(stream_->layout(), map, *source, codec, options_.encode));
    encoded.base -= segment.change;
    encoded.segments.push_back(std::move(segment));
  }
  return Store(place, codec, std::move(encoded), {}).status();
}

Status RankPublisher::CatchUp(uint64_t version, const std::vector<Delta>& chain) {
  if (pending_) return UsageError("rank " + std::to_string(plan_->owner_index) + " waits for a decision; settle it first");
  XORBIT_ASSIGN_OR_RETURN(const VersionRecord record, stream_->CommittedRecord(version));
  XORBIT_ASSIGN_OR_RETURN(const DecodedChain decoded, DecodedChain::Open(*backend_, chain));
  for (size_t i = 0; i < plan_->owned.size(); ++i) {
    const auto source = decoded.Into(plan_->owned[i], ValueSide::kNone, std::nullopt);
    XORBIT_RETURN_IF_ERROR(baseline_.Forward(i, *source, options_.encode.threads));
  }
  version_ = version;
  state_ = record.target;
  return {};
}

Status RankPublisher::RequireVersion(uint64_t version, std::string_view purpose) const {
  if (version == version_) return {};
  return UsageError("rank " + std::to_string(plan_->owner_index) + " stands at version " + std::to_string(version_) +
                    " and cannot " + std::string(purpose) + " version " + std::to_string(version));
}

Result<Payload> RankPublisher::Store(const PublicationPlace& place, CodecId codec, EncodedOwner encoded,
                                     std::vector<WitnessDigest> witnesses) {
  const Stage stage(options_.timers, "hash + store");
  return PutContribution(*stream_, place, *plan_, codec, std::move(encoded), std::move(witnesses), options_.encode.threads);
}

std::vector<WitnessDigest> RankPublisher::Witness(std::span<const SegmentBytes> shared) const {
  const Stage stage(options_.timers, "witness");
  std::vector<WitnessDigest> witnesses;
  for (size_t s = 0; s < shared.size(); ++s) {
    const SharedSegment& segment = plan_->shared[s];
    const std::vector<StateDigest> after =
        backend_->DigestParts(stream_->layout(), segment.map, shared[s], options_.encode.threads);
    for (size_t i = 0; i < after.size(); ++i) {
      witnesses.push_back({segment.owner_index[i], segment.part_sha256[i], after[i]});
    }
  }
  return witnesses;
}

Result<bool> RankPublisher::Settle(const VersionRecord& decided) {
  if (!pending_ || pending_->place.target_version != decided.version) {
    return UsageError("rank " + std::to_string(plan_->owner_index) + " has no contribution to version " +
                      std::to_string(decided.version));
  }
  Pending pending = std::move(*pending_);
  pending_.reset();
  if (!decided.IsBy(pending.place)) return false;
  const Stage stage(options_.timers, "baseline");
  XORBIT_RETURN_IF_ERROR(baseline_.Forward(*backend_, stream_->layout(), std::move(pending.payload), options_.encode.threads));
  version_ = decided.version;
  state_ = decided.target;
  return true;
}

}  // namespace xorbit
