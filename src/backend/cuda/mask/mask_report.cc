#include "backend/cuda/mask/mask_report.h"

#include <algorithm>

#include "backend/cuda/report_of.h"

namespace xorbit::cuda {
namespace {

// By frame: over the sums of its tiles.
std::vector<RecordSums> SumsOfFrames(const MaskPlan& plan, std::span<const TileSums> counted_sums) {
  std::vector<RecordSums> sums(plan.frames.size());
  for (uint64_t tile = 0; tile < plan.frame_of_tile.size(); ++tile) {
    sums[plan.frame_of_tile[tile]] += {counted_sums[tile].before, counted_sums[tile].after};
  }
  return sums;
}

// What the device reported, and the first frame whose sums are not its record's, whichever comes first.
std::vector<PayloadCounters> CompareFrames(const MaskPlan& plan, std::span<const PayloadCounters> counters,
                                           std::span<const RecordSums> sums, Direction direction) {
  std::vector<PayloadCounters> reports(counters.begin(), counters.end());
  for (uint64_t i = plan.frames.size(); i-- > 0;) {
    const FrameOnDevice& frame = plan.frames[i];
    const SegmentPlan& segment = plan.update.segments[frame.segment_index];
    if (segment.device.is_absent != 0 || segment.device.has_digests == 0) continue;
    const FrameRecord record = plan.RecordOf(i);
    const RecordInfo info{record.first, 0, record.change_count, record.before, record.after};
    if (sums[i] == StatedSums(info, direction)) continue;
    uint64_t& first = reports[segment.payload_index].first_refused;
    first = std::min(first, frame.first_tile << 8 | static_cast<uint64_t>(TileError::kDigest));
  }
  return reports;
}

}  // namespace

Result<PrepareReport> ReportOfMasks(const MaskPlan& plan, std::span<const PayloadView> payloads,
                                    std::span<const PayloadCounters> counters, std::span<const TileSums> counted_sums,
                                    const PrepareOptions& options) {
  const std::vector<RecordSums> sums = SumsOfFrames(plan, counted_sums);
  XORBIT_RETURN_IF_ERROR(StatusOfReports(plan.update, options.partial
                                                          ? std::vector<PayloadCounters>(counters.begin(), counters.end())
                                                          : CompareFrames(plan, counters, sums, options.direction)));
  XORBIT_ASSIGN_OR_RETURN(PrepareReport report, ReportOf(plan.update, payloads, counters, counted_sums, options));
  report.record_count = plan.frames.size();
  if (!options.partial) return report;
  report.sums.assign(payloads.size(), {});
  for (uint64_t i = 0; i < plan.frames.size(); ++i) {
    report.sums[plan.update.segments[plan.frames[i].segment_index].payload_index].push_back(sums[i]);
  }
  return report;
}

}  // namespace xorbit::cuda
