// Where the bytes of a segment's records lie in its body, read off the payload's head, and records as a segment of their own:
// what lets a payload that is larger than the memory at hand be fetched and taken a portion at a time.
#pragma once

#include <cstdint>
#include <memory>

#include "codec/codec.h"

namespace xorbit {

// Of one record. Of a "+zstd" codec these are whole outer chunks, which neighbours share.
struct RecordBytes {
  uint64_t body_begin = 0;
  uint64_t body_end = 0;
  uint64_t inner_bytes = 0;  // what undoing these chunks makes; 0 where there are none
};

// Of a segment whose body is not at hand.
class RecordTable {
 public:
  // kCorrupt unless sections hold whole records, as many as stated, that ascend, lie in a body of `body_bytes` in order, and
  // whose changes add up. What a record means is for Codec::Open to check. The view's sections outlive the table.
  static Result<RecordTable> Open(CodecId codec, const EncodedSegmentView& head, uint64_t body_bytes);

  uint64_t record_count() const { return head_.record_count; }
  uint64_t record_size() const { return head_.records.size() / head_.record_count; }  // of a table that is not empty
  RecordBytes at(uint64_t index) const { return Over(index, index + 1); }
  RecordBytes Over(uint64_t begin, uint64_t end) const;  // of all records from `begin` up to `end`, at least one
  // As the records say, which may be anything: the segment's first and last element that a record spans.
  uint64_t FirstElement(uint64_t index) const;
  uint64_t LastElement(uint64_t index) const;

 private:
  friend class SegmentPortion;
  RecordTable(CodecId codec, const EncodedSegmentView& head, uint64_t body_bytes)
      : codec_(codec), head_(head), body_bytes_(body_bytes) {}
  Status CheckRecords() const;
  Status CheckOuter(uint64_t inner_bytes) const;
  uint64_t EndOf(uint64_t index) const;  // of a record, in the body or the inner stream

  CodecId codec_;
  EncodedSegmentView head_;
  uint64_t body_bytes_;
};

// Records [begin, end) of a segment, as a segment without an outer stage, which is undone here. Does not move: views point
// into it.
class SegmentPortion {
 public:
  // `body` holds the body from Over(begin, end).body_begin to its body_end, and must outlive the portion unless there is an
  // outer stage; so must the table's sections. Elements are counted from `first_element`, at most FirstElement(begin). kCorrupt
  // where an outer chunk is not what its record says.
  static Result<std::unique_ptr<SegmentPortion>> Make(const RecordTable& table, uint64_t begin, uint64_t end,
                                                      uint64_t first_element, ConstBytes body, int threads);

  CodecId codec() const { return codec_; }
  const EncodedSegmentView& view() const { return view_; }
  uint64_t byte_count() const { return records_.size() + undone_.size(); }

 private:
  SegmentPortion() = default;
  Status Undo(ConstBytes outer_records, ConstBytes body, int threads);

  CodecId codec_ = CodecId::kSparse;
  Buffer records_;  // offsets counted from the first of them
  Buffer undone_;
  EncodedSegmentView view_;
};

}  // namespace xorbit
