#include "store/receipt_set.h"

#include <map>
#include <string>
#include <utility>

namespace xorbit {
namespace {

// What ranks say of one part.
struct PartWords {
  std::optional<StateDigest> owners;
  uint32_t count = 0;
};
using PartKey = std::pair<uint32_t, Sha256Digest>;  // its owner, and which it is

std::string RankName(uint32_t rank) { return "rank " + std::to_string(rank); }

}  // namespace

Status CheckTogether(std::span<const Receipt> receipts) {
  for (uint32_t i = 0; i < receipts.size(); ++i) {
    const Receipt& receipt = receipts[i];
    if (receipt.owner_count != receipts.size()) {
      return RefusedError(RankName(i) + " says that there are " + std::to_string(receipt.owner_count) + " ranks, rank 0 says " +
                          std::to_string(receipts.size()));
    }
    if (receipt.codec != receipts[0].codec) return RefusedError(RankName(i) + " uses another codec than rank 0");
  }
  return {};
}

std::optional<WitnessFault> FindWitnessFault(std::span<const Receipt> receipts) {
  std::map<PartKey, PartWords> parts;
  for (uint32_t rank = 0; rank < receipts.size(); ++rank) {
    for (const WitnessDigest& witness : receipts[rank].witnesses) {
      PartWords& words = parts[{witness.owner_index, witness.part_sha256}];
      if (witness.owner_index == rank && !words.owners) words.owners = witness.after;
      ++words.count;
    }
  }
  for (uint32_t rank = 0; rank < receipts.size(); ++rank) {
    for (const WitnessDigest& witness : receipts[rank].witnesses) {
      const PartWords& words = parts[{witness.owner_index, witness.part_sha256}];
      const auto fault = [&](WitnessFault::Kind kind) {
        return WitnessFault{kind, witness.owner_index, rank, witness.part_sha256};
      };
      if (!words.owners) return fault(WitnessFault::Kind::kOwnerSilent);
      if (*words.owners != witness.after) return fault(WitnessFault::Kind::kDiffers);
      if (words.count == 1) return fault(WitnessFault::Kind::kNobodyElse);
    }
  }
  return std::nullopt;
}

Status Refusal(const WitnessFault& fault, const std::string& part) {
  const std::string owner = RankName(fault.owner_index);
  switch (fault.kind) {
    case WitnessFault::Kind::kDiffers:
      return RefusedError(part + ": " + RankName(fault.rank) + " holds other values than " + owner +
                          "; make the ranks equal, then publish under a new id");
    case WitnessFault::Kind::kOwnerSilent:
      return RefusedError(part + ": " + RankName(fault.rank) + " says that " + owner +
                          " publishes a copy, which that one does not know of; plan all ranks from one list of what they hold");
    case WitnessFault::Kind::kNobodyElse:
      break;
  }
  return RefusedError(part + ": " + owner +
                      " says that others hold copies, but none bears witness; plan all ranks from one list of what they hold");
}

Manifest ManifestOf(const StreamInfo& info, const Layout& layout, const PublicationPlace& place,
                    std::span<const Receipt> receipts) {
  Manifest manifest;
  manifest.layout_digest = layout.digest();
  manifest.codec = receipts[0].codec;
  manifest.total_bytes = layout.total_bytes();
  manifest.stream =
      StreamIdentity{info.stream_id, info.base_fingerprint, place.base_version, place.target_version, place.publication_id};
  for (const Receipt& receipt : receipts) {
    manifest.owners.push_back(receipt.owner);
    manifest.change_count += receipt.owner.change_count;
    manifest.has_digests = manifest.has_digests && receipt.has_digests;
  }
  return manifest;
}

}  // namespace xorbit
