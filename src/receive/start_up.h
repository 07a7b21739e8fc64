// Starting up: from a checkpoint that was loaded to a version of the stream, over deltas of any size, before anybody reads the
// weights. There is no engine to pause and none to go back for, so a delta need never be in memory whole: it is fetched, undone
// and applied a portion at a time. Attaching a receiver then proves all of live memory, as after any load.
#pragma once

#include <cstdint>

#include "backend/backend.h"
#include "base/stage_timer.h"
#include "store/stream.h"
#include "tensor/live_memory.h"

namespace xorbit {

struct StartUpOptions {
  int threads = 1;
  bool partial = false;                              // PrepareOptions
  uint64_t staging_limit_bytes = uint64_t{1} << 30;  // of payloads in memory at any time: heads, chunks, what undoing makes
  MaskOptions masks{};
};

struct StartUpReport {
  uint64_t object_count = 0;  // deltas on the way
  uint64_t group_count = 0;   // of portions that were in memory together, one group after the other
  uint64_t change_count = 0;
  uint64_t payload_bytes = 0;      // of these deltas, as they lie in the store
  uint64_t fetched_bytes = 0;      // chunks that two portions share count twice
  uint64_t most_staged_bytes = 0;  // of payloads, at any time
  StageTimers timers;              // "fetch + undo", "prepare", "apply"
};

// Takes live memory that holds version `from`, and that nobody reads or has derived anything from, to version `to`. Every
// record is proven before it is applied, and what all of them change must be what the versions' digests say. After an error
// nobody knows what live memory holds: load the checkpoint again. kRefused: `live` is not version `from`, or the limit is too
// small for the deltas' heads and one record. Attach a receiver before anybody reads: ties and what is absent here are not
// proven before.
Result<StartUpReport> StartUp(Stream& stream, const Backend& backend, const LiveMemory& live, uint64_t from, uint64_t to,
                              const StartUpOptions& options);

}  // namespace xorbit
