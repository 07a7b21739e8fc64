#include "payload/payload_reader.h"

#include <algorithm>

#include "base/checked_math.h"
#include "base/parallel.h"
#include "payload/parts.h"
#include "tensor/ownership.h"

namespace xorbit {
namespace {

Status CheckHeader(const Layout& layout, const PayloadHeader& header, uint64_t file_bytes) {
  if (header.magic != kPayloadMagic) return CorruptError("is not a xorbit payload");
  if (header.format_version != kPayloadFormatVersion) {
    return UnsupportedError("has payload format version " + std::to_string(header.format_version) +
                            ", which this xorbit does not read; a newer one may");
  }
  if ((header.flags & ~kPayloadKnownFlags) != 0)
    return UnsupportedError("has flags that this xorbit does not know; a newer one may");
  const auto total = CheckedAdd(header.head_bytes, header.body_bytes);
  if (!total || *total != file_bytes) return CorruptError("has lengths that do not add up to the file's size");
  if (header.layout_digest != layout.digest()) return RefusedError("is for another layout");
  if (header.owner_count == 0 || header.owner_count > kMaxOwners || header.owner_index >= header.owner_count) {
    return CorruptError("names an owner that does not exist");
  }
  if (FindCodec(static_cast<CodecId>(header.codec)) == nullptr) {
    return UnsupportedError("uses codec number " + std::to_string(header.codec) + ", which this xorbit does not have");
  }
  // Records first, so that no count is multiplied before it is known to fit.
  if (header.head_bytes < sizeof header || header.head_bytes % 8 != 0) return CorruptError("has a head of impossible length");
  const uint64_t room = header.head_bytes - sizeof header;
  const uint64_t segment_bytes = uint64_t{header.segment_count} * sizeof(SegmentRecord);
  if (segment_bytes > room || header.chunk_count > (room - segment_bytes) / sizeof(ChunkRecord)) {
    return CorruptError("has more segments and chunks than its head can hold");
  }
  const bool has_digests = (header.flags & kPayloadHasDigests) != 0;
  const bool has_change = header.change_lane0 != 0 || header.change_lane1 != 0;
  if (has_change && (!has_digests || header.change_count == 0)) {
    return CorruptError("has a change digest without digests or without changes");
  }
  return {};
}

Status CheckSegmentRecord(const PayloadHeader& header, const SegmentRecord& record) {
  if (record.unit_bytes != 1 && record.unit_bytes != 2 && record.unit_bytes != 4 && record.unit_bytes != 8) {
    return CorruptError("has a segment whose unit is not 1, 2, 4 or 8 bytes");
  }
  if (record.element_count == 0) return CorruptError("has a segment without elements");
  if (record.change_count > record.element_count || record.record_count > record.change_count ||
      (record.record_count == 0) != (record.change_count == 0)) {
    return CorruptError("has a segment whose counts contradict each other");
  }
  if (record.change_count > header.change_count || record.body_bytes > header.body_bytes) {
    return CorruptError("has a segment larger than the whole");
  }
  return {};
}

// Cuts the head's sections and the body's slices off, front to back. Without a body at hand its slices are empty.
class Slicer {
 public:
  Slicer(ConstBytes sections, ConstBytes body, uint64_t body_bytes)
      : sections_(sections), body_(body), body_left_(body_bytes) {}

  Result<ConstBytes> Section(uint64_t byte_count) {
    if (byte_count > sections_.size()) return CorruptError("has a section that reaches past the head");
    const ConstBytes section = sections_.first(byte_count);
    const uint64_t padded = PaddedTo8(byte_count);  // at most sections_.size(), which is a multiple of 8
    const ConstBytes padding = sections_.subspan(byte_count, padded - byte_count);
    if (!IsAllZero(padding)) return CorruptError("has padding that is not zero");
    sections_ = sections_.subspan(padded);
    return section;
  }

  Result<ConstBytes> Body(uint64_t byte_count) {
    if (byte_count > body_left_) return CorruptError("has segments that reach past the body");
    body_left_ -= byte_count;
    if (body_.empty()) return ConstBytes();
    const ConstBytes slice = body_.first(byte_count);
    body_ = body_.subspan(byte_count);
    return slice;
  }

  bool exhausted() const { return sections_.empty() && body_left_ == 0; }

 private:
  ConstBytes sections_;
  ConstBytes body_;
  uint64_t body_left_;
};

Result<PayloadSegment> ParseSegment(const Layout& layout, const SegmentRecord& record, bool has_digests, Slicer* slicer) {
  PayloadSegment segment;
  XORBIT_ASSIGN_OR_RETURN(const ConstBytes parts, slicer->Section(record.parts_bytes));
  XORBIT_ASSIGN_OR_RETURN(segment.map, DecodeParts(layout, record.unit_bytes, record.group, parts));
  if (segment.map.element_count() != record.element_count)
    return CorruptError("has a segment whose parts do not add up to its element count");
  segment.view.has_digests = has_digests;
  segment.view.record_count = record.record_count;
  segment.view.change_count = record.change_count;
  XORBIT_ASSIGN_OR_RETURN(segment.view.tables, slicer->Section(record.tables_bytes));
  XORBIT_ASSIGN_OR_RETURN(segment.view.records, slicer->Section(record.records_bytes));
  XORBIT_ASSIGN_OR_RETURN(segment.view.outer, slicer->Section(record.outer_bytes));
  XORBIT_ASSIGN_OR_RETURN(segment.view.body, slicer->Body(record.body_bytes));
  segment.body_bytes = record.body_bytes;
  return segment;
}

Status ParseSegments(const Layout& layout, ConstBytes records, Slicer slicer, PayloadView* payload) {
  const PayloadHeader& header = payload->header;
  uint64_t changes_left = header.change_count;
  std::pair<uint32_t, uint32_t> previous;
  for (uint32_t i = 0; i < header.segment_count; ++i) {
    const auto record = LoadLe<SegmentRecord>(records.data() + i * sizeof(SegmentRecord));
    XORBIT_RETURN_IF_ERROR(CheckSegmentRecord(header, record));
    const std::pair group_and_unit(record.group, record.unit_bytes);
    if (i > 0 && !(previous < group_and_unit))
      return CorruptError("has segments that do not ascend by presence group, then unit");
    if (record.group >= layout.groups().size()) return CorruptError("has a segment of a presence group that is not declared");
    previous = group_and_unit;
    if (record.change_count > changes_left) return CorruptError("has change counts that do not add up");
    changes_left -= record.change_count;
    XORBIT_ASSIGN_OR_RETURN(PayloadSegment segment, ParseSegment(layout, record, payload->has_digests(), &slicer));
    payload->segments.push_back(std::move(segment));
  }
  if (changes_left != 0) return CorruptError("has change counts that do not add up");
  if (!slicer.exhausted()) return CorruptError("has bytes that belong to no segment");
  return {};
}

Status ParseChunks(ConstBytes records, PayloadView* payload) {
  payload->chunks.resize(payload->header.chunk_count);
  uint64_t bytes_left = payload->header.body_bytes;
  for (size_t i = 0; i < payload->chunks.size(); ++i) {
    const auto chunk = LoadLe<ChunkRecord>(records.data() + i * sizeof(ChunkRecord));
    if (chunk.byte_count == 0 || chunk.byte_count > bytes_left) return CorruptError("has chunks that do not tile the body");
    bytes_left -= chunk.byte_count;
    payload->chunks[i] = chunk;
  }
  if (bytes_left != 0) return CorruptError("has chunks that do not tile the body");
  return {};
}

// `bytes` is the file, or its head alone.
Result<PayloadView> Parse(const Layout& layout, ConstBytes bytes, uint64_t file_bytes) {
  assert(reinterpret_cast<uintptr_t>(bytes.data()) % 8 == 0);
  PayloadView payload;
  if (bytes.size() < sizeof(PayloadHeader)) return CorruptError("is too short to be a xorbit payload");
  payload.header = LoadLe<PayloadHeader>(bytes.data());
  const PayloadHeader& header = payload.header;
  XORBIT_RETURN_IF_ERROR(CheckHeader(layout, header, file_bytes));
  if (bytes.size() != file_bytes && bytes.size() != header.head_bytes) return CorruptError("has a head of another length");
  payload.info = {static_cast<CodecId>(header.codec), header.owner_index, header.owner_count};
  payload.body = bytes.subspan(header.head_bytes);

  ConstBytes rest = bytes.subspan(sizeof header, header.head_bytes - sizeof header);
  const ConstBytes segment_records = rest.first(header.segment_count * sizeof(SegmentRecord));
  rest = rest.subspan(segment_records.size());
  const ConstBytes chunk_records = rest.first(header.chunk_count * sizeof(ChunkRecord));
  rest = rest.subspan(chunk_records.size());
  XORBIT_RETURN_IF_ERROR(ParseChunks(chunk_records, &payload));
  XORBIT_RETURN_IF_ERROR(ParseSegments(layout, segment_records, Slicer(rest, payload.body, header.body_bytes), &payload));
  return payload;
}

}  // namespace

Result<PayloadView> ParsePayload(const Layout& layout, ConstBytes bytes) { return Parse(layout, bytes, bytes.size()); }

Result<PayloadView> ParsePayloadHead(const Layout& layout, ConstBytes head, uint64_t file_bytes) {
  return Parse(layout, head, file_bytes);
}

Status VerifyChunks(const PayloadView& payload, int threads) {
  return VerifyChunks(payload, 0, payload.chunks.size(), payload.body, threads);
}

Status VerifyChunks(const PayloadView& payload, uint64_t first, uint64_t end, ConstBytes bytes, int threads) {
  const std::span<const ChunkRecord> chunks = std::span(payload.chunks).subspan(first, end - first);
  std::vector<uint64_t> begin_of;
  uint64_t at = 0;
  for (const ChunkRecord& chunk : chunks) {
    begin_of.push_back(at);
    at += chunk.byte_count;
  }
  std::vector<uint8_t> matches(chunks.size(), 0);
  XORBIT_RETURN_IF_ERROR(ParallelFor(threads, chunks.size(), [&](uint64_t i) -> Status {
    matches[i] = Sha256Of(bytes.subspan(begin_of[i], chunks[i].byte_count)) == chunks[i].sha256 ? 1 : 0;
    return {};
  }));
  const auto first_bad = std::find(matches.begin(), matches.end(), 0);
  if (first_bad == matches.end()) return {};
  const uint64_t index = first + static_cast<uint64_t>(first_bad - matches.begin());
  return CorruptError("chunk " + std::to_string(index) + " does not match its SHA-256");
}

}  // namespace xorbit
