#include "receive/record_shares.h"

namespace xorbit {
namespace {

// Two totals of one kind of sum.
void Weigh(uint64_t record, uint64_t sum, StateDigest* total) {
  *total += {(SplitMix64(record) | 1) * sum, (SplitMix64(~record) | 1) * sum};
}

}  // namespace

Status RecordShares::Add(const Backend& backend, const LiveMap& map, std::span<const PayloadView> payloads, Direction direction,
                         const std::vector<std::vector<RecordSums>>& sums) {
  auto& [before, after] = shares_;
  for (size_t p = 0; p < payloads.size(); ++p) {
    size_t in_payload = 0;
    for (const PayloadSegment& segment : payloads[p].segments) {
      XORBIT_ASSIGN_OR_RETURN(const auto decoder, backend.Open(payloads[p], segment));
      const bool compared = payloads[p].has_digests() && !map.is_absent(segment.map.group());
      for (uint64_t i = 0; i < decoder->record_count(); ++i) {
        const uint64_t record = record_count_++;
        const RecordSums& mine = sums[p][in_payload++];
        if (!compared) continue;
        const RecordSums whole = StatedSums(decoder->info(i), direction);
        Weigh(record, mine.before, &before.mine);
        Weigh(record, mine.after, &after.mine);
        Weigh(record, whole.before, &before.whole);
        Weigh(record, whole.after, &after.whole);
      }
    }
  }
  return {};
}

}  // namespace xorbit
