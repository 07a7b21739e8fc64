// Which stretches of which tensors the records of a chain of deltas reach: a few numbers a record, nothing decoded.
//
// A layout costs its sender nothing: a few bytes name a tensor of 2^60 elements. Who walks a segment window by window asks here
// first, so that the work follows the records, which cost bytes.
#pragma once

#include <cstdint>
#include <vector>

#include "codec/codec.h"
#include "tensor/segment.h"

namespace xorbit {

// Immutable once it is sealed; then safe to share between threads.
class ReachedElements {
 public:
  // Adds all records of a segment. Then call Seal() once.
  void Add(const SegmentMap& map, const SegmentDecoder& decoder);
  void Seal();

  // False only if no record touches segment elements [first, first + count), count at least 1.
  bool Touch(const SegmentMap& map, uint64_t first, uint64_t count) const;

 private:
  // Elements of a tensor, between the first and the last that a record may change; strided parts leave holes in between.
  struct Interval {
    uint32_t tensor_index = 0;
    uint64_t begin = 0;
    uint64_t end = 0;
  };

  std::vector<Interval> intervals_;  // once sealed: ascending, disjoint
};

}  // namespace xorbit
