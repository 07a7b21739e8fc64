// What a trainer keeps beside its own checkpoint, so that a later life goes on with the stream: which version of which stream
// its weights were last published as, and the delta that makes that version out of the served base, which every life has.
// docs/formats/trainer-checkpoint.md.
#pragma once

#include "publish/rank_publisher.h"

namespace xorbit {

inline constexpr std::string_view kTrainerCheckpointFolder = "xorbit";

struct TrainerIdentity {
  std::string stream_id;
  Sha256Digest base_fingerprint{};
  Sha256Digest layout_digest{};
  uint64_t version = 0;
  StateDigest target;              // of the version
  Sha256Digest manifest_sha256{};  // of the delta from version 0; none if that is the version
  friend bool operator==(const TrainerIdentity&, const TrainerIdentity&) = default;
};

// READY.json. Deterministic; strict.
std::string WriteTrainerIdentity(const TrainerIdentity& identity);
Result<TrainerIdentity> ParseTrainerIdentity(std::string_view json);

// Writes <checkpoint>/xorbit/ for a committed version, whole or not at all, READY.json last; one process of the trainer calls
// it. The delta from version 0 must be in the store as one: call PublishFoldFrom(0) on all ranks first, else kNotFound. kExists
// if the checkpoint has the folder already.
Status SaveTrainerCheckpoint(FileOps& ops, Stream& stream, uint64_t version, const fs::path& checkpoint);

// What a checkpoint says it is: kNotFound if nothing, or nothing whole, was saved with it; kCorrupt if READY.json was damaged.
Result<TrainerIdentity> ReadTrainerIdentity(const fs::path& checkpoint);

// A rank's publisher at the version that was saved with the checkpoint, from the base (as for RankPublisher::Make) and the
// saved delta. The next publication may be from that version, or the publisher catches up first. kRefused if the checkpoint
// belongs to another stream or base, or the stream did not decide that version, or decided another state for it. That the
// base's bytes are the stream's is proven when the first publication is sealed.
Result<RankPublisher> ResumeRank(Stream& stream, const Backend& backend, RankPlan plan, TensorBytes served,
                                 PublishOptions options, const fs::path& checkpoint);

}  // namespace xorbit
