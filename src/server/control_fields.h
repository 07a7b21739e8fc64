// What a request says, whatever its route: the fields of all endpoints together, read once and strictly. Frameworks send fields
// that concern other engines; those are ignored, but never with another type than the documented one.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"

namespace xorbit {

inline constexpr uint64_t kMaxParticipants = 4096;
inline constexpr uint64_t kMaxLeaseMs = 86'400'000;

struct Participant {
  std::string engine_id;
  uint64_t pid = 0;
  uint64_t start_ticks = 0;
};

struct ControlFields {
  std::string session_id;
  std::optional<std::string> engine_id;
  std::optional<std::string> manifest_path;
  std::optional<std::string> manifest_sha256;
  std::optional<std::string> stream_id;
  std::optional<std::string> base_fingerprint;
  std::optional<std::string> plan_digest;
  std::optional<uint64_t> base_version;
  std::optional<uint64_t> target_version;  // nothing for "latest"
  uint64_t lease_ms = 0;
  bool is_current = false;  // whoever drives calls the target current, whatever the stream has beside it
  bool wants_latest = false;
  std::vector<Participant> participants;

  // Of a sampler on the disk.
  std::optional<std::string> local_checkpoint_dir;
  std::optional<std::string> source_dir;
  std::optional<std::string> model_path;
  std::optional<std::string> label;  // "weight_version" as a string
  bool flush_cache = true;
  bool abort_all_requests = false;

  bool release_state = true;
  bool validate_payload_hash = true;
  bool keep_pause = false;
  std::string mode;         // of a pause
  std::string reason;       // of a pause: why this sampler shall get no traffic; empty: it may
  std::string action;       // of the weights checker
  std::string new_version;  // the plain decimal
  // {"weight_version": {"min_version": N, "exact_version": N}}: what the sampler must have applied to answer.
  std::optional<uint64_t> min_version;
  std::optional<uint64_t> exact_version;
};

// An empty body is {}. kCorrupt says which field is wrong. `query` may say mode= and action= too, as vLLM's clients do.
Result<ControlFields> ParseControlFields(std::string_view body, std::string_view query);

// kUsage unless it is the name of a pause of SGLang's or vLLM's, or empty.
Status CheckPauseMode(std::string_view mode);

}  // namespace xorbit
