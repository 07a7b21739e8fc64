// A stream of made-up payloads for tests: real parts and digests that add up, opaque bodies.
#pragma once

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "payload/payload_test_util.h"
#include "store/stream.h"

namespace xorbit::testing_store {

inline StreamInfo SmallStreamInfo() {
  StreamInfo info;
  info.stream_id = "run-1";
  info.base_fingerprint[0] = 7;
  info.base = {0x1111, 0x2222};
  info.frozen = {0x11, 0x22};
  info.layout_digest = testing_payload::SmallLayout().digest();
  return info;
}

inline Stream CreateStream(ObjectStore& store, const StreamInfo& info = SmallStreamInfo()) {
  Result<Stream> stream = Stream::Create(store, info, testing_payload::SmallLayout());
  EXPECT_TRUE(stream.ok()) << stream.status().message();
  return std::move(stream).value();
}

// One trainer's publication: each rank's payload and receipt. The same seed gives the same weights.
struct MadeUpPublication {
  PublicationPlace place;
  std::vector<Payload> payloads;
  std::vector<Receipt> receipts;
};

inline MadeUpPublication MakePublication(const Stream& stream, const PublicationPlace& place, const StateDigest& base,
                                         uint32_t owner_count, uint64_t seed) {
  MadeUpPublication made;
  made.place = place;
  const Layout& layout = stream.layout();
  const auto owners = PlanOwners(layout, owner_count, Split::kColumn);
  EXPECT_TRUE(owners.ok());
  StateDigest rest = base - stream.info().frozen;
  for (uint32_t i = 0; i < owner_count; ++i) {
    const PayloadInfo info{CodecId::kSparse, i, owner_count};
    made.payloads.push_back(testing_payload::MadeUpPayload(layout, (*owners)[i], info, seed * 1000 + i));
    const Payload& payload = made.payloads.back();
    Receipt receipt;
    receipt.place = place;
    receipt.owner_index = i;
    receipt.owner_count = owner_count;
    receipt.owner = {PayloadFileName(i, payload.sha256),
                     payload.byte_count,
                     payload.head.size(),
                     payload.change_count,
                     payload.sha256,
                     payload.head_sha256,
                     payload.change};
    receipt.base_part = i + 1 < owner_count ? StateDigest{seed + i, i} : rest;
    rest -= receipt.base_part;
    std::vector<const SegmentMap*> segments;
    for (const SegmentMap& map : (*owners)[i]) segments.push_back(&map);
    receipt.parts_sha256 = PartsDigest(layout, segments);
    made.receipts.push_back(std::move(receipt));
  }
  return made;
}

// All that comes before sealing.
inline Status Deliver(Stream& stream, const MadeUpPublication& made) {
  for (size_t i = 0; i < made.payloads.size(); ++i) {
    XORBIT_RETURN_IF_ERROR(stream.PutPayload(made.place, made.payloads[i]));
    XORBIT_RETURN_IF_ERROR(stream.PutReceipt(made.receipts[i]));
  }
  return {};
}

// The whole way; the record that was decided, perhaps another's.
inline Result<VersionRecord> Publish(Stream& stream, const PublicationPlace& place, uint64_t seed, uint32_t owner_count = 2) {
  XORBIT_ASSIGN_OR_RETURN(const std::optional<VersionRecord> base, stream.Record(place.base_version));
  XORBIT_RETURN_IF_ERROR(Deliver(stream, MakePublication(stream, place, base->target, owner_count, seed)));
  XORBIT_ASSIGN_OR_RETURN(const Manifest manifest, stream.Seal(place));
  return stream.Decide(CommitRecord(manifest));
}

// Versions 1 to `count`, each from the one before.
inline void PublishChain(Stream& stream, uint64_t count) {
  for (uint64_t version = 1; version <= count; ++version) {
    const Result<VersionRecord> decided = Publish(stream, {version - 1, version, "t"}, version);
    ASSERT_TRUE(decided.ok()) << decided.status().message();
    ASSERT_TRUE(decided->committed());
  }
}

// A fold from one committed version to another.
inline Status PutFold(Stream& stream, uint64_t from, uint64_t to) {
  const PublicationPlace place{from, to, std::string(kFoldPublicationId)};
  XORBIT_ASSIGN_OR_RETURN(const std::optional<VersionRecord> base, stream.Record(from));
  XORBIT_ASSIGN_OR_RETURN(const std::optional<VersionRecord> target, stream.Record(to));
  const auto owners = PlanOwners(stream.layout(), 1, Split::kWhole);
  std::vector<Payload> payloads;
  payloads.push_back(
      testing_payload::MadeUpPayload(stream.layout(), (*owners)[0], {}, from * 1000 + to, /*has_digests=*/false));
  const StreamIdentity identity{stream.info().stream_id, stream.info().base_fingerprint, from, to, place.publication_id};
  XORBIT_ASSIGN_OR_RETURN(const Manifest manifest,
                          SealManifest(stream.layout(), payloads, base->target, target->target, identity));
  XORBIT_RETURN_IF_ERROR(stream.PutPayload(place, payloads[0]));
  return stream.PutManifest(manifest);
}

}  // namespace xorbit::testing_store
