// The two forms in which an update waits for the pause: as encoded records, or as a log in live coordinates.
#pragma once

#include <memory>
#include <vector>

#include "backend/cpu/record_loop.h"
#include "backend/cpu/touch_log.h"
#include "backend/prepared_update.h"

namespace xorbit {

struct UpdateBasis {
  PrepareReport report;
  const LiveMap* map = nullptr;
  uint64_t epoch = 0;
  int threads = 1;
};

// Decodes in the pause: stages next to nothing. local_sums[i] is LiveSums::written of record i, counted over all segments.
std::unique_ptr<PreparedUpdate> MakeDecodedUpdate(UpdateBasis basis, RecordLoop loop, std::vector<uint64_t> local_sums);

// Only loads and stores in the pause. Logs with old values are stored absolutely, others are XORed. `places` are those of the
// logs' records.
std::unique_ptr<PreparedUpdate> MakeLoggedUpdate(UpdateBasis basis, std::vector<TouchLog> logs,
                                                 std::vector<MutableBytes> places, TouchLogKind kind);

// The same, of logs of kind kLastingUndo, of which undo memory gets a copy, with what `record` says of the live memory and the
// versions before it. kRefused if they are too large for it; kIo if there is no memory behind it.
Result<std::unique_ptr<PreparedUpdate>> MakeLastingUpdate(UpdateBasis basis, std::vector<TouchLog> logs,
                                                          std::vector<MutableBytes> places, UndoRecord record,
                                                          UndoMemory* undo);

}  // namespace xorbit
