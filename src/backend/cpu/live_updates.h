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

// Only loads and stores in the pause. With old values it stores absolutely, otherwise it XORs.
std::unique_ptr<PreparedUpdate> MakeLoggedUpdate(UpdateBasis basis, std::vector<TouchLog> logs, bool with_olds);

}  // namespace xorbit
