// Payloads a portion at a time: a delta that is larger than the memory to stage it in is cut into groups of portions, each some
// records of one segment, and each portion is then a small payload that every backend takes as it is.
//
// Only the heads are at hand. What a body is cut into by its hashes and by its records need not agree, so a portion is read as
// the whole chunks that hold it, and neighbours read the chunk between them twice.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "codec/record_bytes.h"
#include "payload/payload_reader.h"

namespace xorbit {

struct Portion {
  uint32_t payload_index = 0;
  uint32_t segment_index = 0;
  uint64_t record_begin = 0;
  uint64_t record_end = 0;
};

// Records of payloads whose heads are verified.
class PortionPlan {
 public:
  // Groups of which each takes at most `limit_bytes` to fetch and undo: all records, in order. kRefused if one record takes
  // more; kCorrupt as RecordTable::Open. Layout and heads outlive the plan.
  static Result<PortionPlan> Make(const Layout& layout, std::span<const PayloadView> heads, uint64_t limit_bytes);

  const std::vector<std::vector<Portion>>& groups() const { return groups_; }

 private:
  friend class OpenPortion;
  // The chunks that hold some bytes of the body.
  struct ChunkRange {
    uint64_t first = 0;
    uint64_t end = 0;
    uint64_t body_begin = 0;
    uint64_t byte_count = 0;
  };
  struct PlannedSegment {
    uint64_t body_begin = 0;  // in the payload's body
    RecordTable records;
  };
  struct PlannedPayload {
    const PayloadView* head = nullptr;
    std::vector<uint64_t> chunk_starts;  // one more than chunks
    std::vector<PlannedSegment> segments;
  };

  Status AddPayload(const PayloadView& head);
  Status CutSegment(uint32_t payload_index, uint32_t segment_index, uint64_t limit_bytes);
  static ChunkRange ChunksOf(const PlannedPayload& payload, uint64_t body_begin, uint64_t body_end);
  uint64_t CostOf(const Portion& portion) const;

  const Layout* layout_ = nullptr;
  std::vector<PlannedPayload> payloads_;
  std::vector<std::vector<Portion>> groups_;
  uint64_t room_bytes_ = 0;  // in the last group
};

// Reads bytes of a payload's body. `is_again`: what came last time was damaged, so if that was a copy it is not to be asked
// again.
using ReadBody = std::function<Status(uint32_t payload_index, uint64_t body_offset, bool is_again, MutableBytes bytes)>;

// A portion as a payload, of the segment's parts that its records lie in and no others, so that what is planned for it grows
// with the portion and not with the model. Does not move: the view points into it. What its header says of the whole change is
// the payload's: PrepareOptions::is_portion.
class OpenPortion {
 public:
  // Reads and verifies the portion's chunks. kCorrupt if its records leave the segment, a chunk does not match its hash, or an
  // outer chunk is not what its record says; errors of `read`. The plan outlives it.
  static Result<std::unique_ptr<OpenPortion>> Make(const PortionPlan& plan, const Portion& portion, const ReadBody& read,
                                                   int threads);

  const PayloadView& view() const { return view_; }
  uint64_t fetched_bytes() const { return fetched_bytes_; }
  uint64_t most_bytes() const { return most_bytes_; }  // that it has held at any time

 private:
  OpenPortion() = default;

  Buffer chunks_;  // let go of once the outer stage is undone
  std::unique_ptr<SegmentPortion> segment_;
  PayloadView view_;
  uint64_t fetched_bytes_ = 0;
  uint64_t most_bytes_ = 0;
};

}  // namespace xorbit
