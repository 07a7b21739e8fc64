// What the ranks of a cohort compare of a delta's records, in a few numbers whatever the number of records.
//
// Each rank knows, for every record, the sums over the elements that it counts; over all ranks they must add up to the digests
// that the payload states. Sums are linear, so every rank weighs its own by factors that all know, one odd factor a record, and
// the weighted totals add up if and only if the records' sums do, but for one accident in 2^64: an error in one record always
// shows, for an odd factor loses nothing.
#pragma once

#include <array>
#include <span>
#include <vector>

#include "backend/backend.h"
#include "receive/cohort_records.h"

namespace xorbit {

// The shares "records before" and "records after" of one rank, over one delta or the deltas of a chain.
class RecordShares {
 public:
  // Adds a delta. Segments of groups that the map lacks, and payloads without digests, are left out of both sides. `sums` are
  // this rank's, per payload and record, in the direction taken.
  Status Add(const Backend& backend, const LiveMap& map, std::span<const PayloadView> payloads, Direction direction,
             const std::vector<std::vector<RecordSums>>& sums);
  const std::array<Share, 2>& shares() const { return shares_; }

 private:
  std::array<Share, 2> shares_{Share{"records before", {}, {}}, Share{"records after", {}, {}}};
  uint64_t record_count_ = 0;
};

}  // namespace xorbit
