// Undo logs as bytes that another process can take an update back by (docs/formats/undo-log.md): the log part of undo memory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "backend/cpu/touch_log.h"
#include "backend/cpu/touch_view.h"
#include "base/bytes.h"
#include "base/status.h"

namespace xorbit {

struct UndoLogRecord {
  uint64_t block_count;
  uint64_t element_count;
  uint64_t value_bytes;  // of all XORs; old values are as many
};
static_assert(sizeof(UndoLogRecord) == 24 && offsetof(UndoLogRecord, value_bytes) == 16);

// Of these logs (kLastingUndo) as one.
uint64_t UndoLogBytes(std::span<const TouchLog> logs);

// Writes UndoLogBytes(logs) bytes to `out`, which is 8-byte aligned.
void WriteUndoLog(std::span<const TouchLog> logs, MutableBytes out, int threads);

// The whole log, in parts that may be used at once. kCorrupt unless every element lies in its place and nothing is left over.
// The bytes and places outlive the views.
Result<std::vector<TouchView>> ParseUndoLog(ConstBytes log, std::span<const MutableBytes> places);

}  // namespace xorbit
