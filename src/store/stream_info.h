// stream.json: what a stream is, written once. docs/formats/store.md.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/sha256.h"
#include "change/state_digest.h"

namespace xorbit {

inline constexpr uint64_t kMaxStreamInfoBytes = uint64_t{64} << 10;

struct StreamInfo {
  std::string stream_id;            // 1 to 128 letters, digits, '.', '_' or '-', not beginning with '.'
  Sha256Digest base_fingerprint{};  // SHA-256 over the tensors' SHA-256s of version 0, in layout order
  StateDigest base;                 // of version 0
  StateDigest frozen;               // the part of it that no owner holds: frozen tensors, the same in every version
  Sha256Digest layout_digest{};
  Sha256Digest layout_sha256{};  // of the layout's file, which holds what the digest does not cover; Stream::Create fills it in
  // A version's parent is the newest before it, or at most this many versions back: how far a trainer may return, and what no
  // collector gives up.
  uint64_t resume_window = 256;
  friend bool operator==(const StreamInfo&, const StreamInfo&) = default;
};

std::string WriteStreamInfo(const StreamInfo& info);  // deterministic
// Strict: kCorrupt, kUnsupported for another format version; unknown fields as in manifests.
Result<StreamInfo> ParseStreamInfo(std::string_view json);

}  // namespace xorbit
