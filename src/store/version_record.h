// version.json: the create-only record that decides a version, once. docs/formats/store.md.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/sha256.h"
#include "change/state_digest.h"
#include "payload/manifest.h"
#include "store/store_keys.h"

namespace xorbit {

inline constexpr uint64_t kMaxVersionRecordBytes = uint64_t{64} << 10;

enum class Decision { kCommitted, kAborted };

struct VersionRecord {
  uint64_t version = 0;
  Decision decision = Decision::kAborted;
  // Of a committed version only:
  StateDigest target;
  Sha256Digest layout_digest{};
  std::optional<uint64_t> parent;  // with it, publication_id and manifest_sha256: all but version 0 have them
  std::string publication_id;
  Sha256Digest manifest_sha256{};  // of the text of the manifest from `parent` by `publication_id`

  bool committed() const { return decision == Decision::kCommitted; }
  // Whether it is this publication that the version was committed by.
  bool IsBy(const PublicationPlace& place) const {
    return committed() && version == place.target_version && parent == place.base_version &&
           publication_id == place.publication_id;
  }
  friend bool operator==(const VersionRecord&, const VersionRecord&) = default;
};

// What a stream's manifest.json holds: the manifest with a checksum (checked_text.h). A record names the manifest that decided
// by the hash of this; nothing else vouches for those of folds.
std::string StreamManifestText(const Manifest& manifest);
// The record that commits what a manifest of a stream seals. The manifest must have a stream identity.
VersionRecord CommitRecord(const Manifest& manifest);
// The record that gives a version up. The same whoever writes it.
VersionRecord AbortRecord(uint64_t version);

std::string WriteVersionRecord(const VersionRecord& record);  // deterministic
Result<VersionRecord> ParseVersionRecord(std::string_view json);

}  // namespace xorbit
