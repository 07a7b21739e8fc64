// The journey through a store, for checkpoints on disk: published version by version, and pulled to any of them.
// publish_checkpoint.cc and pull_checkpoint.cc read from top to bottom.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "journey/journey.h"
#include "store/stream.h"

namespace xorbit {

inline constexpr std::string_view kDefaultStreamId = "main";

struct PublishRequest {
  std::string stream_id;  // empty: the store's only stream; "main" if the store is empty
  fs::path checkpoint;
  // A checkpoint that is some version of the stream: what the new one is compared with. Empty: the newest anchor in the store.
  std::optional<fs::path> base;
  bool with_anchor = false;  // store the new version whole as well
  std::vector<uint64_t> marks = {0};
  DeltaOptions delta;
};

struct PublishedCheckpoint {
  std::string stream_id;
  bool created = false;  // the stream was made, with this checkpoint (or the base) as version 0
  uint64_t version = 0;
  StateDigest state;
  std::optional<Manifest> manifest;  // of the delta from the version before; none for version 0
  uint64_t payload_bytes = 0;
  uint64_t manifest_bytes = 0;
  uint64_t sent_bytes() const { return payload_bytes + manifest_bytes; }
  size_t fold_count = 0;
  Status folds;  // why some could not be written: the version is published all the same, and receivers take more deltas to it
};

// Publishes the checkpoint as the stream's next version, as a delta from the newest one; the first checkpoint of all begins the
// stream as version 0 and is stored whole; where that was interrupted, it is finished, or begins anew. kRefused if the layout
// is not the stream's, the base is no version of it, or another publisher was faster: then nothing but unused objects was
// written, and the same call may be made again.
Result<PublishedCheckpoint> PublishCheckpoint(const Runtime& runtime, ObjectStore& store, const PublishRequest& request);

struct PulledCheckpoint {
  std::string stream_id;
  std::optional<uint64_t> from;  // none: there was nothing, and an anchor was fetched
  uint64_t version = 0;
  StateDigest state;
  size_t object_count = 0;     // deltas taken
  uint64_t fetched_bytes = 0;  // of deltas and anchor
  uint64_t change_count = 0;
  bool recovered = false;  // an interrupted earlier change was finished first
};

// Brings a checkpoint to a version of the stream (the newest if none is given), forward or back; makes it from an anchor if it
// is not there. Crash-safe like ApplyInPlace; every byte is verified before the first is changed. kRefused if the checkpoint is
// no version of the stream, or was changed otherwise.
Result<PulledCheckpoint> PullCheckpoint(const Runtime& runtime, ObjectStore& store, std::string_view stream_id,
                                        const fs::path& checkpoint, std::optional<uint64_t> version);
// The same by whoever holds the lock of a checkpoint that is there.
Result<PulledCheckpoint> PullCheckpoint(const Runtime& runtime, ObjectStore& store, std::string_view stream_id,
                                        FileTarget* target, const fs::path& checkpoint, std::optional<uint64_t> version);

// The committed version that has this state; nothing if none has. The newest is tried first.
Result<std::optional<uint64_t>> VersionOfState(Stream& stream, const StateDigest& state);

}  // namespace xorbit
