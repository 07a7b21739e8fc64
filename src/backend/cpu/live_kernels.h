// The inner loops of the CPU receiver: planned changes of one record against live host memory.
#pragma once

#include <cstdint>

#include "backend/cpu/live_targets.h"
#include "base/bytes.h"
#include "codec/change_digest.h"

namespace xorbit {

struct LiveSums {
  ChangeDigest counted;
  uint64_t written = 0;       // what Apply will meet: the values of all that it writes, weighted by their addresses
  uint64_t counted_bits = 0;  // of the record's elements
  uint64_t written_bits = 0;  // likewise, each copy by itself
  bool copies_agree = true;   // copies of an element hold the same bits, and casts are those of their kept copies
};

// Reused from record to record so that hot loops do not allocate. One thread.
struct LiveScratch {
  LiveTargets targets;
  Buffer olds;
};

// Sums what live memory holds and would hold. Live is only read. Both lanes of what counts.
LiveSums WeighRecord(const PlannedRecord& planned, LiveScratch* scratch);

// XORs the record into live memory and casts what is cast; sums the values that it met, as in LiveSums::written. False if a
// cast's result was not what it should have been: that element is left as it is.
bool XorRecord(const PlannedRecord& planned, LiveScratch* scratch, uint64_t* met);

// Takes XorRecord back, also where it said false.
void UnXorRecord(const PlannedRecord& planned, LiveScratch* scratch);

}  // namespace xorbit
