// Undo memory: where an undo log lies if live memory outlives the process that applies, as engine memory in a shared segment
// does (docs/formats/undo-log.md, docs/design/receiving.md).
//
// It always says which version live memory holds, or by which log to make it hold one. Two slots take turns: while one is
// written the other one counts, and only its state is ever changed in place, by one store. So whoever writes may be killed
// anywhere.
//
//   waiting   live memory holds `from`: the log has not been used, or was taken back
//   armed     live memory may be anything in between: the log takes it back to `from`
//   done      live memory holds `to`
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>

#include "base/bytes.h"
#include "base/sha256.h"
#include "base/status.h"
#include "base/xxh3.h"
#include "change/state_digest.h"
#include "tensor/live_memory.h"

namespace xorbit {

inline constexpr std::array<uint8_t, 8> kUndoMagic = {'x', 'o', 'b', 'u', 'n', 'd', 'o', 0};
inline constexpr uint32_t kUndoVersion = 1;

enum class UndoState : uint64_t {
  kWaiting = 0x2e676e6974696177,  // "waiting."
  kArmed = 0x2e2e2e64656d7261,    // "armed..."
  kDone = 0x2e2e2e2e656e6f64,     // "done...."
};

// Versions of a stream, and D over what the live memory counts of them.
struct UndoVersions {
  uint64_t from = 0;
  uint64_t to = 0;
  StateDigest before;  // without frozen tensors
  StateDigest after;
  StateDigest frozen;  // of both
};

// As it stands in memory; everything but the state is sealed.
struct UndoRecord {
  uint64_t sequence = 0;  // of two slots the higher one counts
  uint64_t epoch = 0;     // of the live map
  uint64_t shape = 0;     // XXH3-64 of the sizes of all regions, then of all kept copies
  Sha256Digest layout{};
  UndoVersions versions;
  uint64_t log_bytes = 0;
  Xxh3Digest log_xxh3;
  Xxh3Digest xxh3;  // of all before
  UndoState state = UndoState::kWaiting;
};
static_assert(sizeof(UndoRecord) == 168 && offsetof(UndoRecord, versions) == 56 && offsetof(UndoRecord, state) == 160);

// A record of these versions in this live memory, not sealed yet.
UndoRecord UndoRecordOf(const LiveMemory& live, const UndoVersions& versions);
// kRefused unless a log of the record may be used on this live memory: same layout, epoch and sizes.
Status CheckUndoRecord(const UndoRecord& record, const LiveMemory& live);

// One thread of one process at a time; the caller sees to that.
class UndoMemory {
 public:
  static constexpr uint64_t kLogOffset = 512;

  UndoMemory() = default;

  // `bytes` are 8-byte aligned, at least kLogOffset, lie in memory that lasts as long as the live memory, and outlive the
  // object. Whoever loads a checkpoint into live memory sets them to zero first: they then say nothing. kUsage if they are too
  // few; kRefused if they hold something else; kCorrupt if what they held cannot be made out.
  static Result<UndoMemory> Open(MutableBytes bytes);

  // What counts. Nothing in memory that was never written.
  const std::optional<UndoRecord>& record() const { return record_; }
  // Room for the next log. May be written unless the record is armed.
  MutableBytes log_room() const { return bytes_.subspan(kLogOffset); }
  // The record's log, if it is what was sealed: a copy, for others may write to the memory meanwhile. kCorrupt otherwise.
  Result<Buffer> ProvenLog() const;

  // Seals the first log_bytes of log_room() and makes this the record, waiting. The record is as UndoRecordOf made it; the rest
  // is filled in. Not while the record is armed: its log is needed.
  void Seal(UndoRecord record, uint64_t log_bytes);
  // What the record's log stands for, in one store that no store before or after it passes.
  void SetState(UndoState state);

 private:
  explicit UndoMemory(MutableBytes bytes) : bytes_(bytes) {}

  MutableBytes bytes_;
  std::optional<UndoRecord> record_;
};

}  // namespace xorbit
