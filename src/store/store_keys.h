// Where a stream's objects are: pure functions between keys and what they mean. docs/formats/store.md lists them.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/sha256.h"
#include "payload/manifest.h"

namespace xorbit {

// One try to publish `target_version` as a delta from `base_version` < target_version. Ranks of one trainer use one id; no id
// is ever used for different weights.
struct PublicationPlace {
  uint64_t base_version = 0;
  uint64_t target_version = 0;
  std::string publication_id;
  friend bool operator==(const PublicationPlace&, const PublicationPlace&) = default;
};

// Folds have no author: whoever makes one, with the same versions of the code, writes the same bytes.
inline constexpr std::string_view kFoldPublicationId = "fold";

std::string StreamInfoKey(std::string_view stream_id);                               // <stream>/stream.json
std::string HeadKey(std::string_view stream_id);                                     // <stream>/head.json
std::string LayoutKey(std::string_view stream_id, const Sha256Digest& digest);       // <stream>/layouts/<digest>.json
std::string VersionFolderKey(std::string_view stream_id, uint64_t version);          // <stream>/v000007/
std::string VersionRecordKey(std::string_view stream_id, uint64_t version);          // <stream>/v000007/version.json
std::string PlaceKey(std::string_view stream_id, const PublicationPlace& place);     // <stream>/v000007/from_v000006/<id>/
std::string ManifestKey(std::string_view stream_id, const PublicationPlace& place);  // PlaceKey + manifest.json
std::string ReceiptKey(std::string_view stream_id, const PublicationPlace& place, uint32_t owner_index);  // receipt-00000.json
std::string PayloadKey(std::string_view stream_id, const PublicationPlace& place, const ManifestOwner& owner);
std::string AnchorKey(std::string_view stream_id, uint64_t version);  // <stream>/v000007/full/anchor.json
std::string AnchorFileKey(std::string_view stream_id, uint64_t version, std::string_view file);
std::string TombstoneKey(std::string_view stream_id, const PublicationPlace& place);  // PlaceKey + tombstone.json
std::string AnchorTombstoneKey(std::string_view stream_id, uint64_t version);

// What a key below a stream names; nothing if it is none of the above, or spelt otherwise than they would spell it.
enum class ObjectKind {
  kStreamInfo,
  kHead,
  kLayout,
  kVersionRecord,
  kManifest,
  kReceipt,
  kPayload,
  kTombstone,
  kAnchor,
  kAnchorFile,
  kAnchorTombstone
};
struct ParsedKey {
  ObjectKind kind{};
  uint64_t version = 0;    // target, for what lies in a version's folder
  PublicationPlace place;  // kManifest, kReceipt, kPayload, kTombstone
};
std::optional<ParsedKey> ParseStoreKey(std::string_view stream_id, std::string_view key);

}  // namespace xorbit
