// An encoded segment as a reader would get it: sections of its own that a test may damage. For tests and fuzz targets; no
// product code includes it.
#pragma once

#include <vector>

#include "base/unit.h"
#include "change/list_source.h"
#include "codec/codec.h"

namespace xorbit {

struct SegmentImage {
  explicit SegmentImage(const EncodedSegment& segment)
      : has_digests(segment.has_digests),
        record_count(segment.record_count),
        change_count(segment.change_count),
        tables(segment.tables),
        records(segment.records),
        outer(segment.outer) {
    for (const Buffer& piece : segment.body) AppendBytes(body, piece);
  }

  // Into this object.
  EncodedSegmentView view() const { return {has_digests, record_count, change_count, tables, records, outer, body}; }

  // Record is TileRecord or FrameRecord, as the codec has it.
  template <typename Record>
  Record record(uint64_t index) const {
    return LoadLe<Record>(records.data() + index * sizeof(Record));
  }
  template <typename Record>
  void set_record(uint64_t index, const Record& record) {
    StoreLe(records.data() + index * sizeof(Record), record);
  }
  uint64_t byte_count() const { return tables.size() + records.size() + outer.size() + body.size(); }

  bool has_digests;
  uint64_t record_count;
  uint64_t change_count;
  Buffer tables;
  Buffer records;
  Buffer outer;
  Buffer body;
};

// Decodes every record and checks what SegmentDecoder promises about it: kCorrupt if a promise is broken. Old bits are 0.
inline Result<std::vector<ElementChange>> DecodeAll(const SegmentDecoder& decoder, uint32_t unit_bytes) {
  std::vector<ElementChange> changes;
  DecodedRecord record;
  for (uint64_t i = 0; i < decoder.record_count(); ++i) {
    const RecordInfo info = decoder.info(i);
    XORBIT_RETURN_IF_ERROR(decoder.Decode(i, &record));
    if (record.count != info.change_count) return CorruptError("broken promise: count");
    for (uint64_t k = 0; k < record.count; ++k) {
      const ElementChange change{info.first + record.offsets[k], 0, UnitBits(record.xors.data() + k * unit_bytes, unit_bytes)};
      if (change.element > info.last) return CorruptError("broken promise: span");
      if (!changes.empty() && change.element <= changes.back().element) return CorruptError("broken promise: order");
      if (change.xor_bits == 0) return CorruptError("broken promise: zero");
      changes.push_back(change);
    }
  }
  return changes;
}

}  // namespace xorbit
