#include "codec/record_bytes.h"

#include <algorithm>
#include <string>

#include "base/checked_math.h"
#include "base/parallel.h"
#include "codec/mask_format.h"
#include "codec/sparse_format.h"
#include "codec/zstd_frame.h"

namespace xorbit {
namespace {

// Tiles and frames both begin with the first element and an offset.
static_assert(offsetof(TileRecord, first) == 0 && offsetof(FrameRecord, first) == 0);
static_assert(offsetof(TileRecord, offset) == offsetof(FrameRecord, inner_offset));
constexpr size_t kOffsetAt = offsetof(TileRecord, offset);

uint64_t RecordSizeOf(CodecId codec) { return codec == CodecId::kSparse ? sizeof(TileRecord) : sizeof(FrameRecord); }

// The codec of the inner stream alone.
CodecId WithoutOuter(CodecId codec) {
  if (codec == CodecId::kSnappyZstd) return CodecId::kSnappy;
  return codec == CodecId::kLz4Zstd ? CodecId::kLz4 : codec;
}
bool HasOuter(CodecId codec) { return WithoutOuter(codec) != codec; }

const uint8_t* RecordAt(CodecId codec, ConstBytes records, uint64_t index) {
  return records.data() + index * RecordSizeOf(codec);
}
uint64_t FirstOf(const uint8_t* record) { return LoadLe<uint64_t>(record); }
uint64_t OffsetOf(const uint8_t* record) { return LoadLe<uint64_t>(record + kOffsetAt); }
uint64_t ChangesOf(CodecId codec, const uint8_t* record) {
  if (codec == CodecId::kSparse) return uint64_t{LoadLe<TileRecord>(record).count_minus_1} + 1;
  return LoadLe<FrameRecord>(record).change_count;
}

OuterRecord OuterAt(ConstBytes outer, uint64_t index) {
  return LoadLe<OuterRecord>(outer.data() + index * sizeof(OuterRecord));
}

}  // namespace

Result<RecordTable> RecordTable::Open(CodecId codec, const EncodedSegmentView& head, uint64_t body_bytes) {
  if (CheckedMul(head.record_count, RecordSizeOf(codec)) != head.records.size()) {
    return CorruptError("the number of records does not fit their section");
  }
  RecordTable table(codec, head, body_bytes);
  XORBIT_RETURN_IF_ERROR(table.CheckRecords());
  return table;
}

uint64_t RecordTable::EndOf(uint64_t index) const {
  const uint8_t* record = RecordAt(codec_, head_.records, index);
  if (codec_ != CodecId::kSparse) return OffsetOf(record) + LoadLe<FrameRecord>(record).inner_bytes;
  return index + 1 < head_.record_count ? OffsetOf(record + sizeof(TileRecord)) : body_bytes_;
}

Status RecordTable::CheckRecords() const {
  const auto fail = [](uint64_t index, const char* why) { return CorruptError("record " + std::to_string(index) + " " + why); };
  uint64_t end = 0;
  uint64_t change_count = 0;
  for (uint64_t i = 0; i < head_.record_count; ++i) {
    const uint8_t* record = RecordAt(codec_, head_.records, i);
    if (i > 0 && FirstOf(record) <= FirstOf(record - RecordSizeOf(codec_))) return fail(i, "is out of order");
    if (OffsetOf(record) != end) return fail(i, "does not follow the one before");
    end = EndOf(i);
    if (end <= OffsetOf(record)) return fail(i, "has no bytes");
    if (end > body_bytes_ && !HasOuter(codec_)) return fail(i, "reaches past the body");
    change_count += ChangesOf(codec_, record);
  }
  if (change_count != head_.change_count) return CorruptError("the records' changes do not add up to the segment's");
  if (HasOuter(codec_)) return CheckOuter(end);
  if (!head_.outer.empty()) return CorruptError("this codec has no outer chunks");
  return end == body_bytes_ ? Status() : CorruptError("the records do not fill the body");
}

Status RecordTable::CheckOuter(uint64_t inner_bytes) const {
  const uint64_t count = DivideRoundUp(inner_bytes, kOuterChunkBytes);
  if (CheckedMul(count, sizeof(OuterRecord)) != head_.outer.size()) {
    return CorruptError("the number of outer chunks does not fit the frames");
  }
  uint64_t body_at = 0;
  for (uint64_t i = 0; i < count; ++i) {
    const OuterRecord record = OuterAt(head_.outer, i);
    const uint64_t expected = std::min(kOuterChunkBytes, inner_bytes - i * kOuterChunkBytes);
    if (record.offset != body_at || record.inner_bytes != expected || record.encoded_bytes > body_bytes_ - body_at) {
      return CorruptError("outer chunk " + std::to_string(i) + " does not follow the one before in stream and body");
    }
    body_at += record.encoded_bytes;
  }
  return body_at == body_bytes_ ? Status() : CorruptError("the outer chunks do not fill the body");
}

uint64_t RecordTable::FirstElement(uint64_t index) const { return FirstOf(RecordAt(codec_, head_.records, index)); }

uint64_t RecordTable::LastElement(uint64_t index) const {
  const uint8_t* record = RecordAt(codec_, head_.records, index);
  if (codec_ == CodecId::kSparse) return FirstOf(record) + LoadLe<TileRecord>(record).span;
  return FirstOf(record) + LoadLe<FrameRecord>(record).element_count - 1;
}

RecordBytes RecordTable::Over(uint64_t begin, uint64_t end) const {
  const uint64_t from = OffsetOf(RecordAt(codec_, head_.records, begin));
  const uint64_t to = EndOf(end - 1);
  if (!HasOuter(codec_)) return {from, to, 0};
  const uint64_t first_chunk = from / kOuterChunkBytes;
  const uint64_t last_chunk = (to - 1) / kOuterChunkBytes;
  const OuterRecord last = OuterAt(head_.outer, last_chunk);
  return {OuterAt(head_.outer, first_chunk).offset, last.offset + last.encoded_bytes,
          (last_chunk - first_chunk) * kOuterChunkBytes + last.inner_bytes};
}

Result<std::unique_ptr<SegmentPortion>> SegmentPortion::Make(const RecordTable& table, uint64_t begin, uint64_t end,
                                                             uint64_t first_element, ConstBytes body, int threads) {
  std::unique_ptr<SegmentPortion> portion(new SegmentPortion());  // tidy-allow: private
  const CodecId codec = table.codec_;
  const uint64_t size = RecordSizeOf(codec);
  const ConstBytes records = table.head_.records.subspan(begin * size, (end - begin) * size);
  const uint64_t from = OffsetOf(records.data());
  portion->codec_ = WithoutOuter(codec);
  portion->records_.assign(records.begin(), records.end());
  EncodedSegmentView& view = portion->view_;
  for (uint64_t i = 0; i < end - begin; ++i) {
    uint8_t* record = portion->records_.data() + i * size;
    StoreLe(record, FirstOf(record) - first_element);
    StoreLe(record + kOffsetAt, OffsetOf(record) - from);
    view.change_count += ChangesOf(codec, record);
  }
  view.has_digests = table.head_.has_digests;
  view.record_count = end - begin;
  view.tables = table.head_.tables;
  view.records = portion->records_;
  view.body = body;
  if (!HasOuter(codec)) return portion;
  const uint64_t first_chunk = from / kOuterChunkBytes;
  const uint64_t to = table.EndOf(end - 1);
  const uint64_t chunk_count = (to - 1) / kOuterChunkBytes + 1 - first_chunk;
  const ConstBytes chunks = table.head_.outer.subspan(first_chunk * sizeof(OuterRecord), chunk_count * sizeof(OuterRecord));
  XORBIT_RETURN_IF_ERROR(portion->Undo(chunks, body, threads));
  view.body = ConstBytes(portion->undone_).subspan(from % kOuterChunkBytes, to - from);
  return portion;
}

Status SegmentPortion::Undo(ConstBytes outer_records, ConstBytes body, int threads) {
  const uint64_t chunk_count = outer_records.size() / sizeof(OuterRecord);
  undone_.resize((chunk_count - 1) * kOuterChunkBytes + OuterAt(outer_records, chunk_count - 1).inner_bytes);
  const uint64_t begin = OuterAt(outer_records, 0).offset;
  return ParallelFor(threads, chunk_count, [&](uint64_t i) -> Status {
    const OuterRecord record = OuterAt(outer_records, i);
    return DecompressZstdFrame(body.subspan(record.offset - begin, record.encoded_bytes),
                               MutableBytes(undone_).subspan(i * kOuterChunkBytes, record.inner_bytes))
        .WithContext("outer chunk " + std::to_string(i) + " of this portion");
  });
}

}  // namespace xorbit
