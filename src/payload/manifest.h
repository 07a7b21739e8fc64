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

struct ManifestOwner {
  std::string file;  // "owner-00000-<first 16 hex digits of its SHA-256>.xob"
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

// Deterministic: same manifest, same bytes. No times, no random ids of its own.
std::string WriteManifest(const Manifest& manifest);

// Strict: unknown format version, missing or mistyped fields, numbers out of range, repeated keys, unsafe file names, wrong
// owner order, more than 2^20 owners, change counts that do not add up, owners' changes that do not add up to target - base.
// Unknown fields are ignored unless "critical" lists them.
Result<Manifest> ParseManifest(std::string_view json);

// layouts/<digest>.json: the layout, its presence groups and frozen marks. Parse recomputes the digest and refuses another.
std::string WriteLayoutJson(const Layout& layout);
Result<Layout> ParseLayoutJson(std::string_view json, const Sha256Digest& expected_digest);

}  // namespace xorbit
