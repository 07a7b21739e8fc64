// Where a stream's objects are: pure functions between keys and what they mean. docs/formats/store.md lists them.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/sha256.h"
#include "payload/manifest.h"

namespace xorbit {

inline constexpr uint64_t kMaxVersion = 999'999'999'999;  // versions are written out in keys

// One try to publish `target_version` as a delta from `base_version` < target_version. Ranks of one trainer use one id; no id
// is ever used for different weights.
struct PublicationPlace {
  uint64_t base_version = 0;
  uint64_t target_version = 0;
  std::string publication_id;
  friend bool operator==(const PublicationPlace&, const PublicationPlace&) = default;
  friend auto operator<=>(const PublicationPlace&, const PublicationPlace&) = default;
};

inline PublicationPlace PlaceOf(const StreamIdentity& identity) {
  return {identity.base_version, identity.target_version, identity.publication_id};
}

// Folds have no author: whoever makes one, with the same version of the code, writes the same bytes.
inline constexpr std::string_view kFoldPublicationId = "fold";

// kUsage unless base_version < target_version <= kMaxVersion and the id is one (see IsSafeId).
Status CheckPlace(const PublicationPlace& place);

// Numbers have at least six digits, an owner's index five.
std::string StreamInfoKey(std::string_view stream_id);                               // <stream>/stream.json
std::string HeadKey(std::string_view stream_id);                                     // <stream>/head.json
std::string LayoutKey(std::string_view stream_id, const Sha256Digest& digest);       // <stream>/layouts/<digest>.json
std::string TombstonesKey(std::string_view stream_id, uint64_t number);              // <stream>/tombstones/000001.json
std::string VersionFolder(std::string_view stream_id, uint64_t version);             // <stream>/v000007/
std::string VersionRecordKey(std::string_view stream_id, uint64_t version);          // <stream>/v000007/version.json
std::string AnchorsFolder(std::string_view stream_id, uint64_t version);             // <stream>/v000007/full/
std::string PlaceFolder(std::string_view stream_id, const PublicationPlace& place);  // <stream>/v000007/from_v000006/<id>/
std::string ManifestKey(std::string_view stream_id, const PublicationPlace& place);  // PlaceFolder + manifest.json
std::string ReceiptKey(std::string_view stream_id, const PublicationPlace& place, uint32_t owner_index);  // receipt-00000.json
std::string PayloadKey(std::string_view stream_id, const PublicationPlace& place, const ManifestOwner& owner);
// Of any stream. What has such a key never changes: the key holds its hash.
bool IsPayloadKey(std::string_view key);

// What lies in a publication's or anchor's folder.
struct PlacedKey {
  PublicationPlace place;  // of an anchor: the version twice, no id
  std::string_view file;   // its name there, part of the key
};
// Nothing for any other key, and for numbers spelt otherwise than above.
std::optional<PlacedKey> ParsePlacedKey(std::string_view stream_id, std::string_view key);

// The highest version that was decided before anybody could put an object under this key: a record's own; the base of a
// publication; of a fold and an anchor, which come after the decision, the version that they lead to. Nothing for other keys.
std::optional<uint64_t> DecidedBefore(std::string_view stream_id, std::string_view key);

}  // namespace xorbit
