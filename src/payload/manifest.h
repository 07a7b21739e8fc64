// The manifest seals a delta: which payloads, from which state to which. JSON, docs/formats/manifest.md.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/sha256.h"
#include "change/state_digest.h"
#include "codec/codec.h"
#include "payload/payload_writer.h"
#include "tensor/layout.h"

namespace xorbit {

inline constexpr uint32_t kManifestFormatVersion = 1;
inline constexpr uint32_t kLayoutFormatVersion = 1;

// Bounds on what a reader loads into memory before it knows whose it is.
inline constexpr uint64_t kMaxManifestBytes = uint64_t{16} << 20;  // kMaxOwners take half of it
inline constexpr uint64_t kMaxLayoutBytes = uint64_t{128} << 20;
inline constexpr uint32_t kMaxGroups = 256;

struct ManifestOwner {
  std::string file;  // PayloadFileName(its index, sha256)
  uint64_t byte_count = 0;
  uint64_t head_byte_count = 0;
  uint64_t change_count = 0;
  Sha256Digest sha256{};
  Sha256Digest head_sha256{};
  StateDigest change;
};

// Identity in a stream; absent for a delta made by hand.
struct StreamIdentity {
  std::string stream_id;
  Sha256Digest base_fingerprint{};
  uint64_t base_version = 0;
  uint64_t target_version = 0;
  std::string publication_id;
};

struct Manifest {
  Sha256Digest layout_digest{};
  CodecId codec = CodecId::kSparse;
  bool has_digests = true;  // false: tiles carry none; apply first scans the state and compares it with `base`
  StateDigest base;         // D of the whole layout before and after
  StateDigest target;
  uint64_t change_count = 0;
  uint64_t total_bytes = 0;  // of the layout's tensors
  std::vector<ManifestOwner> owners;
  std::optional<StreamIdentity> stream;
};

// "owner-NNNNN-<first 16 hex digits of the payload's SHA-256>.xob", the index in decimal with at least five digits.
std::string PayloadFileName(uint32_t owner_index, const Sha256Digest& sha256);

// What a manifest says of this payload.
ManifestOwner ManifestOwnerOf(const Payload& payload);

// The manifest of payloads 0, 1, ... of one delta from state `base` to state `target`. kUsage if they do not belong together or
// their changes do not add up to target - base.
Result<Manifest> SealManifest(const Layout& layout, const std::vector<Payload>& payloads, const StateDigest& base,
                              const StateDigest& target, std::optional<StreamIdentity> stream = std::nullopt);

// Deterministic: same manifest, same bytes. No times, no random ids of its own.
std::string WriteManifest(const Manifest& manifest);

// Strict, kCorrupt: missing or mistyped fields, numbers out of range, repeated keys that it knows, file names other than
// PayloadFileName's, no owners or more than kMaxOwners, change counts that do not add up, owners' changes that do not add up to
// target - base (without digests: that are not zero), ids of a stream that could not be file names. kUnsupported: another
// format version or codec. Unknown fields are ignored unless "critical" lists them.
Result<Manifest> ParseManifest(std::string_view json);

// layouts/<digest>.json: the layout, its presence groups and frozen marks. The digest does not cover these two, so the text has
// a checksum (base/checksum_field.h). Parse refuses a text without it, another digest, and tensors out of layout order; the
// same rules as above otherwise. Deterministic.
std::string WriteLayoutJson(const Layout& layout);
Result<Layout> ParseLayoutJson(std::string_view json, const Sha256Digest& expected_digest);
Result<Layout> ParseLayoutJson(std::string_view json);  // whatever its digest and checksum

}  // namespace xorbit
