#include "backend/cpu/record_loop.h"

#include <algorithm>
#include <string>

#include "base/ascending.h"
#include "base/parallel.h"

namespace xorbit {
namespace {

// Records are handed out in stretches, so that scratch memory is set up once a stretch and neighbours share cache lines.
constexpr uint64_t kStretchRecords = 16;

// Splits a record where it passes from one tensor, or one contiguous run of a tensor, to the next.
template <typename Visit>
void SplitByTensor(RunFinder* runs, const RecordInfo& info, const DecodedRecord& record, Visit&& visit) {
  const auto count = static_cast<uint32_t>(record.count);
  for (uint32_t i = 0; i < count;) {
    const uint64_t element = info.first + record.offsets[i];
    const Run& run = runs->Find(element);
    const uint32_t end = EndOfRun(record.offsets.data(), i, count, run.element_count - (element - run.segment_element));
    visit(run.tensor_index, run.tensor_element - run.segment_element + info.first, i, end);
    i = end;
  }
}

}  // namespace

void ForEachTensorRun(const RecordTurn& turn, const VisitTensorRun& visit) {
  RunFinder runs(turn.segment->segment->map);
  SplitByTensor(&runs, turn.info, *turn.planned.record, visit);
}

Result<RecordLoop> RecordLoop::Open(const Backend& backend, const Layout& layout, std::span<const PayloadView> payloads,
                                    const LiveMemory& live) {
  RecordLoop loop;
  loop.map_ = live.map;
  loop.tensor_keys_ = TensorKeysOf(layout);
  loop.places_ = PlaceBytesOf(live);
  for (size_t p = 0; p < payloads.size(); ++p) {
    const PayloadView& payload = payloads[p];
    for (const PayloadSegment& segment : payload.segments) {
      auto decoder = backend.Open(payload, segment);
      if (!decoder.ok()) return decoder.status().WithContext("payload of owner " + std::to_string(payload.info.owner_index));
      const uint64_t record_count = (*decoder)->record_count();
      for (uint64_t first = 0; first < record_count; first += kStretchRecords) {
        loop.stretches_.push_back({loop.segments_.size(), first, std::min(record_count, first + kStretchRecords)});
      }
      loop.segments_.push_back({.payload_index = p,
                                .segment = &segment,
                                .decoder = std::move(decoder).value(),
                                .has_digests = payload.has_digests(),
                                .present = !live.map->is_absent(segment.map.group()),
                                .first_record = loop.record_count_});
      loop.record_count_ += record_count;
    }
  }
  return loop;
}

Status RecordLoop::RunStretch(uint64_t stretch_index, const Body& body) const {
  const Stretch& stretch = stretches_[stretch_index];
  const OpenedSegment& segment = segments_[stretch.segment_index];
  DecodedRecord record;
  LivePlan plan;
  const auto scratch = std::make_unique<LiveScratch>();
  LivePlanner planner(*map_);
  RunFinder runs(segment.segment->map);
  const uint32_t unit_bytes = segment.segment->map.unit_bytes();
  for (uint64_t index = stretch.first; index < stretch.last; ++index) {
    XORBIT_RETURN_IF_ERROR(segment.decoder->Decode(index, &record));
    const RecordInfo info = segment.decoder->info(index);
    plan.Clear();
    if (segment.present) {
      SplitByTensor(&runs, info, record, [&](uint32_t tensor_index, uint64_t to_tensor, uint32_t begin, uint32_t end) {
        planner.Add(tensor_index, unit_bytes, to_tensor, record.offsets.data(), begin, end, &plan);
      });
    }
    XORBIT_RETURN_IF_ERROR(body({&segment,
                                 stretch_index,
                                 index + 1 == stretch.last,
                                 index,
                                 info,
                                 {unit_bytes, tensor_keys_, places_, &record, &plan},
                                 scratch.get()}));
  }
  return {};
}

Status RecordLoop::ForEach(int threads, const Body& body) const {
  return ParallelFor(threads, stretches_.size(), [&](uint64_t index) { return RunStretch(index, body); });
}

}  // namespace xorbit
