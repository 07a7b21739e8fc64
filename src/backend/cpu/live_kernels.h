// The inner loops of the CPU receiver: planned changes of one record against live host memory.
#pragma once

#include <cstdint>
#include <span>

#include "backend/prepared_update.h"
#include "base/bytes.h"
#include "codec/change_digest.h"
#include "codec/codec.h"
#include "tensor/live_planner.h"

namespace xorbit {

// One record, decoded and planned. Places: regions, then kept copies.
struct PlannedRecord {
  uint32_t unit_bytes;
  std::span<const uint64_t> tensor_keys;
  std::span<const MutableBytes> places;
  const DecodedRecord* record;
  const LivePlan* plan;
};

struct LiveSums {
  ChangeDigest counted;
  RecordSums written;         // lane 0, in canonical coordinates, over everything that Apply writes, each copy by itself
  uint64_t counted_bits = 0;  // of the record's elements
  uint64_t written_bits = 0;  // likewise, each copy by itself
  bool copies_agree = true;   // copies of an element hold the same bits, and casts are those of their kept copies
};

// Sums what live memory holds and would hold. Live is only read. Both lanes of what counts.
LiveSums WeighRecord(const PlannedRecord& planned);

// XORs the record into live memory and casts what is cast; sums lane 0 of the values that it met and left, as in
// LiveSums::written. False if a cast's result was not what it should have been: that element is left as it is.
bool XorRecord(const PlannedRecord& planned, RecordSums* written);

// Takes XorRecord back, also where it said false.
void UnXorRecord(const PlannedRecord& planned);

}  // namespace xorbit
