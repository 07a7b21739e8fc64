#include "backend/cuda/report_of.h"

#include <algorithm>
#include <string>

#include "backend/cuda/binding_plan.h"
#include "base/text.h"

namespace xorbit::cuda {
namespace {

const char* WhyOf(TileError error) {
  switch (error) {
    case TileError::kTruncated:
      return "truncated";
    case TileError::kPadding:
      return "padding that is not zero";
    case TileError::kLaneStart:
      return "a lane starts below the floor";
    case TileError::kStreams:
      return "its symbols leave its bytes or its span";
    case TileError::kLaneEnd:
      return "a lane does not end where encoding began";
    case TileError::kUnusedBytes:
      return "bytes that no symbol uses";
    case TileError::kLastElement:
      return "its changes end before its last element";
    case TileError::kNoChange:
      return "an element that does not change";
    case TileError::kCount:
      return "its changes are not those that its record counts";
    case TileError::kLength:
      return "its length does not fit its span";
    default:
      return "unknown error";
  }
}

std::string WhyRefused(TileError error) {
  switch (error) {
    case TileError::kReplica:
      return "live copies of one tensor differ from each other: ";
    case TileError::kIncomplete:
      return "this memory does not hold every changed element (one rank of several must be prepared as partial): ";
    default:
      return "live weights are not the state this delta starts from: ";
  }
}

// The segment that holds tile `tile_index` of an update.
const SegmentPlan& SegmentOf(const UpdatePlan& plan, uint64_t tile_index) {
  const auto after = std::upper_bound(plan.segments.begin(), plan.segments.end(), tile_index,
                                      [](uint64_t tile, const SegmentPlan& s) { return tile < s.device.first_tile; });
  return *(after - 1);
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
        const RecordRange tiles = RecordsIn(segment.segment->view, segment.parts[part].first, segment.parts[part + 1].first);
        if (tiles.begin < tiles.end) return true;
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

Status StatusOfReports(const UpdatePlan& plan, std::span<const PayloadCounters> counters) {
  for (const PayloadCounters& counter : counters) {
    if (counter.first_corrupt == kNoReport) continue;
    const uint64_t tile_index = counter.first_corrupt >> 8;
    const uint64_t record_index = tile_index - SegmentOf(plan, tile_index).device.first_tile;
    return CorruptError("sparse tile " + std::to_string(record_index) + ": " +
                        WhyOf(static_cast<TileError>(counter.first_corrupt & 0xff)));
  }
  for (const PayloadCounters& counter : counters) {
    if (counter.first_refused == kNoReport) continue;
    const uint64_t tile_index = counter.first_refused >> 8;
    const SegmentPlan& segment = SegmentOf(plan, tile_index);
    const uint64_t record_index = tile_index - segment.device.first_tile;
    const auto record = LoadLe<TileRecord>(segment.segment->view.records.data() + record_index * sizeof(TileRecord));
    const Run run = RunAt(segment.segment->map, record.first);
    return RefusedError(WhyRefused(static_cast<TileError>(counter.first_refused & 0xff)) + "tensor " +
                        Quoted(plan.layout->tensors()[run.tensor_index].name) + " at or after element " +
                        std::to_string(run.tensor_element));
  }
  return {};
}

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
    if (options.partial || options.is_portion || !complete[p] || !payloads[p].has_digests()) continue;
    const StateDigest stated = payloads[p].change();
    if (found == (options.direction == Direction::kForward ? stated : StateDigest{} - stated)) continue;
    return RefusedError("live weights are not the state this delta starts from: the digests of the whole change do not agree");
  }
  return report;
}

}  // namespace xorbit::cuda
