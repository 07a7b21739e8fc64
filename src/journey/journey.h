// The whole journey: old + new -> delta -> applied. Commands and tests call these functions; make_delta.cc, apply.cc and
// fold_delta.cc read from top to bottom like the picture in ARCHITECTURE.md.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "backend/backend.h"
#include "base/progress.h"
#include "base/stage_timer.h"
#include "interchange/miles_writer.h"
#include "payload/delta_folder.h"
#include "tensor/checkpoint.h"
#include "tensor/layout_rules.h"
#include "tensor/ownership.h"

namespace xorbit {

class FileTarget;  // receive/file_target.h: a checkpoint's lock, held

// What every step of the journey runs with. The pointees outlive the call; timers and progress may be null.
struct Runtime {
  const Backend* backend = nullptr;
  FileOps* file_ops = nullptr;
  int threads = 1;
  StageTimers* timers = nullptr;
  Progress* progress = nullptr;
};

struct DeltaOptions {
  std::optional<CodecId> codec;  // default: sparse for a diff, the first delta's for a fold
  uint32_t owner_count = 1;      // of a diff; a fold keeps the first delta's owners and rules
  Split split = Split::kWhole;
  LayoutRules rules;
  EncodeOptions encode;  // threads are taken from the Runtime
};

struct DeltaSummary {
  Manifest manifest;
  uint64_t payload_bytes = 0;   // all .xob files
  uint64_t manifest_bytes = 0;  // manifest.json
  uint64_t sent_bytes() const { return payload_bytes + manifest_bytes; }
};

// Writes the delta old_checkpoint -> new_checkpoint as the folder `delta`, whole or not at all. kRefused if the layouts differ
// or a frozen tensor changes; kExists if `delta` is there.
Result<DeltaSummary> MakeDelta(const Runtime& runtime, const Checkpoint& old_checkpoint, const Checkpoint& new_checkpoint,
                               const fs::path& delta, const DeltaOptions& options);

// The same as a weight_vNNNNNN folder for Miles, slime and stitch. Their format has no groups; frozen tensors are refused if
// they change. Threads are taken from the Runtime.
Result<MilesWriteReport> MakeMilesDelta(const Runtime& runtime, const Checkpoint& old_checkpoint,
                                        const Checkpoint& new_checkpoint, const fs::path& folder, const LayoutRules& rules,
                                        MilesWriteOptions options);

// Folds a chain of deltas into one folder `delta` from the first's base to the last's target. `checkpoint` is in one of these
// two states and lends the values for tile digests; without it the result has none. Owners are the first delta's. With a
// checkpoint the files equal those of MakeDelta over the same two states byte for byte.
Result<DeltaSummary> FoldDeltas(const Runtime& runtime, const std::vector<fs::path>& chain, const fs::path& delta,
                                const Checkpoint* checkpoint, const DeltaOptions& options);

// Where a checkpoint stands relative to a chain of deltas.
enum class ChainPosition { kOnChain, kInterrupted, kNotOnChain };
struct StateReport {
  ChainPosition position = ChainPosition::kNotOnChain;
  size_t chain_index = 0;  // kOnChain: how many deltas of the chain are in; 0 is the base, the chain's size the target
  StateDigest digest;      // of the checkpoint; zero when interrupted
};
// kRefused if the layouts differ. Changes nothing. An opened checkpoint is taken as not interrupted.
Result<StateReport> IdentifyState(const Runtime& runtime, const fs::path& checkpoint, const std::vector<Delta>& chain);
Result<StateReport> IdentifyState(const Runtime& runtime, const Checkpoint& checkpoint, const std::vector<Delta>& chain);

// Whether an apply in place was interrupted (or is running) and its journal waits to be finished or undone. A damaged journal
// says nothing about the checkpoint; its state digest does.
Result<bool> IsInterrupted(const fs::path& checkpoint);

// Opens a checkpoint that is in one state: kRefused if it is interrupted. What every command reads checkpoints with.
Result<Checkpoint> OpenSettled(const fs::path& path);

struct ApplySummary {
  uint64_t change_count = 0;  // elements that were changed; 0 if the checkpoint was there already
  size_t delta_count = 0;     // deltas that this call applied
  bool already_there = false;
  bool recovered = false;             // an interrupted earlier apply was finished first
  std::optional<StateDigest> digest;  // of the result, unless it was there already
};

// Brings `checkpoint` to the chain's target in place, from its base or any state in between; kInverse: back to its base. Takes
// weight_vNNNNNN folders too, one after another. Crash-safe: after any interruption the next call first finishes what was
// begun, and RollBack undoes it (docs/design/crash-safety.md). kRefused if the checkpoint is in no state of the chain. After an
// error nothing has changed, but for an interrupted earlier apply that was finished and weight_v folders that were complete.
Result<ApplySummary> ApplyInPlace(const Runtime& runtime, const fs::path& checkpoint, const std::vector<fs::path>& chain,
                                  Direction direction);
// The same by whoever holds the checkpoint's lock already.
Result<ApplySummary> ApplyInPlace(const Runtime& runtime, FileTarget* target, const fs::path& checkpoint,
                                  const std::vector<fs::path>& chain, Direction direction);

// The same onto a copy at `out`, which appears whole or not at all and must not exist; other files of the folder come along.
Result<ApplySummary> ApplyToCopy(const Runtime& runtime, const fs::path& checkpoint, const std::vector<fs::path>& chain,
                                 const fs::path& out, Direction direction);

// Rolls an interrupted apply back. False if there was nothing to roll back.
Result<bool> RollBack(const Runtime& runtime, const fs::path& checkpoint);

// Opens every delta of a chain and checks that each starts where the one before ends.
Result<std::vector<Delta>> OpenChain(const Runtime& runtime, const std::vector<fs::path>& folders);

}  // namespace xorbit
