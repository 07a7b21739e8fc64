#include "backend/cuda/report_of.h"

#include <algorithm>

namespace xorbit::cuda {
namespace {

TileRecord RecordAt(const EncodedSegmentView& view, uint64_t index) {
  return LoadLe<TileRecord>(view.records.data() + index * sizeof(TileRecord));
}

// Whether some tile reaches into elements [begin, end) of the segment.
bool Touches(const EncodedSegmentView& view, uint64_t begin, uint64_t end) {
  uint64_t low = 0;
  uint64_t high = view.record_count;
  while (low < high) {  // the first record that ends behind `begin`
    const uint64_t middle = low + (high - low) / 2;
    const TileRecord record = RecordAt(view, middle);
    if (record.first + record.span < begin) {
      low = middle + 1;
    } else {
      high = middle;
    }
  }
  return low < view.record_count && RecordAt(view, low).first < end;
}

// A tile that reaches over a tensor may leave it as it is: then its callback runs for nothing.
std::vector<uint32_t> DerivedThatMayChange(const UpdatePlan& plan) {
  std::vector<uint32_t> derived;
  const auto bindings = plan.map->derived();
  for (uint32_t i = 0; i < bindings.size(); ++i) {
    const bool touched = std::any_of(plan.segments.begin(), plan.segments.end(), [&](const SegmentPlan& segment) {
      const SegmentMap& map = segment.segment->map;
      for (size_t part = 0; part < map.parts().size() && segment.device.is_absent == 0; ++part) {
        if (map.parts()[part].tensor_index != bindings[i].tensor_index) continue;
        if (Touches(segment.segment->view, segment.parts[part].first, segment.parts[part + 1].first)) return true;
      }
      return false;
    });
    if (touched) derived.push_back(i);
  }
  return derived;
}

std::vector<std::vector<RecordSums>> SumsByPayload(const UpdatePlan& plan, size_t payload_count,
                                                   std::span<const TileSums> counted_sums) {
  std::vector<std::vector<RecordSums>> sums(payload_count);
  for (const SegmentPlan& segment : plan.segments) {
    for (uint64_t i = 0; i < segment.device.record_count; ++i) {
      const TileSums& tile = counted_sums[segment.device.first_tile + i];
      sums[segment.payload_index].push_back({tile.before, tile.after});
    }
  }
  return sums;
}

}  // namespace

Result<PrepareReport> ReportOf(const UpdatePlan& plan, std::span<const PayloadView> payloads,
                               std::span<const PayloadCounters> counters, std::span<const TileSums> counted_sums,
                               const PrepareOptions& options) {
  PrepareReport report;
  report.change_count = plan.change_count;
  report.record_count = plan.tile_count;
  if (options.partial) report.sums = SumsByPayload(plan, payloads.size(), counted_sums);
  report.derived = DerivedThatMayChange(plan);
  std::vector<bool> complete(payloads.size(), true);
  for (size_t p = 0; p < payloads.size(); ++p) {
    for (const PayloadSegment& segment : payloads[p].segments) {
      if (plan.map->is_absent(segment.map.group())) complete[p] = false;
    }
  }
  for (size_t p = 0; p < payloads.size(); ++p) {
    // A payload without tiles behind the last that has some has no counters.
    const StateDigest found =
        p < counters.size() ? StateDigest{counters[p].lane0_change, counters[p].lane1_change} : StateDigest{};
    if (p < counters.size()) report.local_change_count += counters[p].local_change_count;
    report.change += found;
    if (options.partial || !complete[p] || !payloads[p].has_digests()) continue;
    const StateDigest stated = payloads[p].change();
    if (found == (options.direction == Direction::kForward ? stated : StateDigest{} - stated)) continue;
    return RefusedError("live weights are not the state this delta starts from: the digests of the whole change do not agree");
  }
  return report;
}

}  // namespace xorbit::cuda
