#include "payload/portions.h"

#include <algorithm>
#include <string>

#include "base/parallel.h"

namespace xorbit {

Result<PortionPlan> PortionPlan::Make(const Layout& layout, std::span<const PayloadView> heads, uint64_t limit_bytes) {
  PortionPlan plan;
  plan.layout_ = &layout;
  for (uint32_t p = 0; p < heads.size(); ++p) {
    XORBIT_RETURN_IF_ERROR(plan.AddPayload(heads[p]));
    for (uint32_t s = 0; s < heads[p].segments.size(); ++s) XORBIT_RETURN_IF_ERROR(plan.CutSegment(p, s, limit_bytes));
  }
  return plan;
}

Status PortionPlan::AddPayload(const PayloadView& head) {
  PlannedPayload payload;
  payload.head = &head;
  payload.chunk_starts.push_back(0);
  for (const ChunkRecord& chunk : head.chunks) payload.chunk_starts.push_back(payload.chunk_starts.back() + chunk.byte_count);
  uint64_t at = 0;
  for (const PayloadSegment& segment : head.segments) {
    XORBIT_ASSIGN_OR_RETURN(const RecordTable records, RecordTable::Open(head.info.codec, segment.view, segment.body_bytes));
    payload.segments.push_back({at, records});
    at += segment.body_bytes;
  }
  payloads_.push_back(std::move(payload));
  return {};
}

PortionPlan::ChunkRange PortionPlan::ChunksOf(const PlannedPayload& payload, uint64_t body_begin, uint64_t body_end) {
  const std::vector<uint64_t>& starts = payload.chunk_starts;
  const auto first = std::upper_bound(starts.begin(), starts.end(), body_begin) - 1;
  const auto end = std::lower_bound(first, starts.end(), body_end);
  return {static_cast<uint64_t>(first - starts.begin()), static_cast<uint64_t>(end - starts.begin()), *first, *end - *first};
}

// Chunks, what undoing them makes, and the portion's own records.
uint64_t PortionPlan::CostOf(const Portion& portion) const {
  const PlannedPayload& payload = payloads_[portion.payload_index];
  const PlannedSegment& segment = payload.segments[portion.segment_index];
  const RecordBytes bytes = segment.records.Over(portion.record_begin, portion.record_end);
  const ChunkRange chunks = ChunksOf(payload, segment.body_begin + bytes.body_begin, segment.body_begin + bytes.body_end);
  return chunks.byte_count + bytes.inner_bytes + (portion.record_end - portion.record_begin) * segment.records.record_size();
}

// By bisection, since what records cost together grows with each of them.
Status PortionPlan::CutSegment(uint32_t payload_index, uint32_t segment_index, uint64_t limit_bytes) {
  const uint64_t record_count = payloads_[payload_index].segments[segment_index].records.record_count();
  for (uint64_t begin = 0; begin < record_count;) {
    uint64_t fits = begin;
    uint64_t end = record_count + 1;  // too many
    while (fits + 1 < end) {
      const uint64_t middle = fits + (end - fits) / 2;
      (CostOf({payload_index, segment_index, begin, middle}) <= room_bytes_ ? fits : end) = middle;
    }
    if (fits == begin) {
      if (room_bytes_ == limit_bytes) {
        return RefusedError("one record takes " + std::to_string(CostOf({payload_index, segment_index, begin, begin + 1})) +
                            " bytes of the " + std::to_string(limit_bytes) + " that may be staged: raise the limit");
      }
      groups_.emplace_back();
      room_bytes_ = limit_bytes;
      continue;
    }
    if (groups_.empty()) groups_.emplace_back();
    const Portion portion{payload_index, segment_index, begin, fits};
    room_bytes_ -= CostOf(portion);
    groups_.back().push_back(portion);
    begin = fits;
  }
  return {};
}

namespace {

// The parts that elements [first, last] lie in, and where the first of these parts begins in the segment.
struct PartsOfPortion {
  SegmentMap map;
  uint64_t first_element = 0;
};
Result<PartsOfPortion> PartsOver(const Layout& layout, const SegmentMap& map, uint64_t first, uint64_t last) {
  if (last < first || last >= map.element_count()) return CorruptError("has records that leave their segment");
  const auto begin = map.parts().begin() + static_cast<ptrdiff_t>(map.PartAt(first));
  const auto end = map.parts().begin() + static_cast<ptrdiff_t>(map.PartAt(last)) + 1;
  PartsOfPortion parts;
  parts.first_element = map.part_start(map.PartAt(first));
  XORBIT_ASSIGN_OR_RETURN(parts.map, SegmentMap::Make(layout, map.unit_bytes(), map.group(), {begin, end}));
  return parts;
}

}  // namespace

Result<std::unique_ptr<OpenPortion>> OpenPortion::Make(const PortionPlan& plan, const Portion& portion, const ReadBody& read,
                                                       int threads) {
  std::unique_ptr<OpenPortion> open(new OpenPortion());  // tidy-allow: private
  const PortionPlan::PlannedPayload& payload = plan.payloads_[portion.payload_index];
  const PortionPlan::PlannedSegment& segment = payload.segments[portion.segment_index];
  XORBIT_ASSIGN_OR_RETURN(PartsOfPortion parts, PartsOver(*plan.layout_, payload.head->segments[portion.segment_index].map,
                                                          segment.records.FirstElement(portion.record_begin),
                                                          segment.records.LastElement(portion.record_end - 1)));
  const RecordBytes bytes = segment.records.Over(portion.record_begin, portion.record_end);
  const uint64_t body_begin = segment.body_begin + bytes.body_begin;
  const PortionPlan::ChunkRange chunks = PortionPlan::ChunksOf(payload, body_begin, segment.body_begin + bytes.body_end);
  open->chunks_.resize(chunks.byte_count);
  const auto read_once = [&](bool is_again) -> Status {
    XORBIT_RETURN_IF_ERROR(read(portion.payload_index, chunks.body_begin, is_again, open->chunks_));
    return VerifyChunks(*payload.head, chunks.first, chunks.end, open->chunks_, threads);
  };
  Status whole = read_once(/*is_again=*/false);
  if (whole.code() == Code::kCorrupt) whole = read_once(/*is_again=*/true);
  XORBIT_RETURN_IF_ERROR(whole);
  const ConstBytes body = ConstBytes(open->chunks_).subspan(body_begin - chunks.body_begin, bytes.body_end - bytes.body_begin);
  XORBIT_ASSIGN_OR_RETURN(open->segment_, SegmentPortion::Make(segment.records, portion.record_begin, portion.record_end,
                                                               parts.first_element, body, threads));
  open->fetched_bytes_ = chunks.byte_count;
  open->most_bytes_ = chunks.byte_count + open->segment_->byte_count();
  if (bytes.inner_bytes > 0) Buffer().swap(open->chunks_);

  const PayloadView& head = *payload.head;
  PayloadView& view = open->view_;
  view.header = head.header;
  view.header.codec = static_cast<uint32_t>(open->segment_->codec());
  view.header.segment_count = 1;
  view.header.chunk_count = 0;
  view.header.change_count = open->segment_->view().change_count;
  view.info = head.info;
  view.info.codec = open->segment_->codec();
  view.body = open->segment_->view().body;
  view.segments.push_back({std::move(parts.map), open->segment_->view(), view.body.size()});
  return open;
}

}  // namespace xorbit
