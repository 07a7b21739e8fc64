// One decoded record against live host memory: weigh it (pre-flight) or XOR it in (apply). The inner loops of the CPU receiver.
#pragma once

#include <span>

#include "backend/backend.h"

namespace xorbit {

// Sums old and new contributions of the record's elements as live would have them; live is only read. Both lanes.
ChangeDigest WeighRecord(const SegmentMap& map, std::span<const uint64_t> tensor_keys, const RecordInfo& info,
                         const DecodedRecord& record, TensorBytes live);

// XORs the record into live and sums lane 0 of the values it met and of those it left. lane1_change stays 0: the pause pays for
// one lane only, pre-flight has checked both. Without `with_digest` nothing is summed (undo).
ChangeDigest XorRecord(const SegmentMap& map, std::span<const uint64_t> tensor_keys, const RecordInfo& info,
                       const DecodedRecord& record, MutableTensorBytes live, bool with_digest);

}  // namespace xorbit
