#include "payload/payload_writer.h"

#include <algorithm>

#include "base/parallel.h"
#include "payload/parts.h"
#include "payload/payload_format.h"

namespace xorbit {
namespace {

Status CheckSegments(const std::vector<SegmentMap>& maps, const std::vector<EncodedSegment>& segments) {
  assert(maps.size() == segments.size());
  for (const SegmentMap& map : maps) {
    if (map.element_count() == 0) return UsageError("a payload's segments must have elements");
  }
  for (size_t i = 1; i < maps.size(); ++i) {
    const auto key = [](const SegmentMap& map) { return std::pair(map.group(), map.unit_bytes()); };
    if (!(key(maps[i - 1]) < key(maps[i]))) return UsageError("a payload's segments must ascend by presence group, then unit");
  }
  bool has_digests = false;
  bool lacks_digests = false;
  for (const EncodedSegment& segment : segments) {
    assert(segment.cuts.empty() ? segment.body.empty() : std::is_sorted(segment.cuts.begin(), segment.cuts.end()));
    if (segment.change_count == 0) continue;
    (segment.has_digests ? has_digests : lacks_digests) = true;
  }
  if (has_digests && lacks_digests) return UsageError("a payload's segments must all have digests, or none of them");
  return {};
}

uint64_t BodyBytesOf(const EncodedSegment& segment) {
  uint64_t byte_count = 0;
  for (const Buffer& piece : segment.body) byte_count += piece.size();
  return byte_count;
}

// Body offsets at which chunks end: the first cut at which a chunk holds kChunkTargetBytes, and the end. Chunks run on across
// segments, so that small segments do not cost a hash each.
std::vector<uint64_t> PlanChunks(const std::vector<EncodedSegment>& segments) {
  std::vector<uint64_t> ends;
  uint64_t chunk_begin = 0;
  uint64_t segment_begin = 0;
  for (const EncodedSegment& segment : segments) {
    for (const uint64_t cut : segment.cuts) {
      if (segment_begin + cut - chunk_begin < kChunkTargetBytes) continue;
      chunk_begin = segment_begin + cut;
      ends.push_back(chunk_begin);
    }
    segment_begin += BodyBytesOf(segment);
  }
  if (segment_begin > chunk_begin) ends.push_back(segment_begin);
  return ends;
}

// Hashes body bytes [begin, end), which may lie in several pieces; begin_of[i] is where piece i begins.
Sha256Digest HashRange(const std::vector<Buffer>& body, const std::vector<uint64_t>& begin_of, uint64_t begin, uint64_t end) {
  Sha256 hash;
  size_t piece = static_cast<size_t>(std::upper_bound(begin_of.begin(), begin_of.end(), begin) - begin_of.begin()) - 1;
  while (begin < end) {
    const uint64_t within = begin - begin_of[piece];
    const uint64_t byte_count = std::min<uint64_t>(body[piece].size() - within, end - begin);
    hash.Update(ConstBytes(body[piece]).subspan(within, byte_count));
    begin += byte_count;
    ++piece;
  }
  return hash.Finish();
}

Result<std::vector<ChunkRecord>> HashChunks(const std::vector<Buffer>& body, const std::vector<uint64_t>& ends, int threads) {
  std::vector<uint64_t> begin_of;
  uint64_t at = 0;
  for (const Buffer& piece : body) {
    begin_of.push_back(at);
    at += piece.size();
  }
  std::vector<ChunkRecord> chunks(ends.size());
  XORBIT_RETURN_IF_ERROR(ParallelFor(threads, ends.size(), [&](uint64_t i) -> Status {
    const uint64_t begin = i == 0 ? 0 : ends[i - 1];
    chunks[i] = {ends[i] - begin, HashRange(body, begin_of, begin, ends[i])};
    return {};
  }));
  return chunks;
}

template <typename Record>
void AppendRecord(Buffer& out, const Record& record) {
  AppendBytes(out, {reinterpret_cast<const uint8_t*>(&record), sizeof record});
}

void AppendSection(Buffer& out, ConstBytes section) {
  AppendBytes(out, section);
  out.resize(PaddedTo8(out.size()), 0);
}

}  // namespace

Buffer FileBytesOf(const Payload& payload) {
  Buffer bytes;
  bytes.reserve(payload.byte_count);
  AppendBytes(bytes, payload.head);
  for (const Buffer& piece : payload.body) AppendBytes(bytes, piece);
  return bytes;
}

Result<Payload> WritePayload(const Layout& layout, const PayloadInfo& info, const std::vector<SegmentMap>& maps,
                             std::vector<EncodedSegment> segments, int threads) {
  XORBIT_RETURN_IF_ERROR(CheckSegments(maps, segments));
  assert(info.owner_index < info.owner_count);
  Payload payload;
  payload.info = info;
  payload.has_digests = true;
  const std::vector<uint64_t> chunk_ends = PlanChunks(segments);
  Buffer records;   // SegmentRecord x segment_count
  Buffer sections;  // each starts on a multiple of 8, as all that comes before is one
  for (size_t i = 0; i < segments.size(); ++i) {
    EncodedSegment& segment = segments[i];
    if (segment.change_count != 0 && !segment.has_digests) payload.has_digests = false;
    payload.change_count += segment.change_count;
    payload.change += segment.change;
    const Buffer parts = EncodeParts(layout, maps[i]);
    AppendRecord(records, SegmentRecord{.unit_bytes = maps[i].unit_bytes(),
                                        .group = maps[i].group(),
                                        .element_count = maps[i].element_count(),
                                        .change_count = segment.change_count,
                                        .record_count = segment.record_count,
                                        .body_bytes = BodyBytesOf(segment),
                                        .parts_bytes = parts.size(),
                                        .tables_bytes = segment.tables.size(),
                                        .records_bytes = segment.records.size(),
                                        .outer_bytes = segment.outer.size()});
    for (const Buffer* section :
         {&parts, &std::as_const(segment.tables), &std::as_const(segment.records), &std::as_const(segment.outer)}) {
      AppendSection(sections, *section);
    }
    for (Buffer& piece : segment.body) {
      if (!piece.empty()) payload.body.push_back(std::move(piece));
    }
  }
  assert(payload.has_digests || payload.change == StateDigest{});
  XORBIT_ASSIGN_OR_RETURN(const std::vector<ChunkRecord> chunks, HashChunks(payload.body, chunk_ends, threads));

  PayloadHeader header{};
  header.magic = kPayloadMagic;
  header.format_version = kPayloadFormatVersion;
  header.flags = payload.has_digests ? kPayloadHasDigests : 0;
  header.head_bytes = sizeof header + records.size() + chunks.size() * sizeof(ChunkRecord) + sections.size();
  header.body_bytes = chunk_ends.empty() ? 0 : chunk_ends.back();
  header.layout_digest = layout.digest();
  header.owner_index = info.owner_index;
  header.owner_count = info.owner_count;
  header.codec = static_cast<uint32_t>(info.codec);
  header.segment_count = static_cast<uint32_t>(segments.size());
  header.chunk_count = chunks.size();
  header.change_count = payload.change_count;
  header.change_lane0 = payload.change.lane0;
  header.change_lane1 = payload.change.lane1;

  payload.head.reserve(header.head_bytes);
  AppendRecord(payload.head, header);
  AppendBytes(payload.head, records);
  for (const ChunkRecord& chunk : chunks) AppendRecord(payload.head, chunk);
  AppendBytes(payload.head, sections);
  assert(payload.head.size() == header.head_bytes);

  payload.byte_count = header.head_bytes + header.body_bytes;
  payload.head_sha256 = Sha256Of(payload.head);
  Sha256 whole;
  whole.Update(payload.head);
  for (const Buffer& piece : payload.body) whole.Update(piece);
  payload.sha256 = whole.Finish();
  return payload;
}

}  // namespace xorbit
