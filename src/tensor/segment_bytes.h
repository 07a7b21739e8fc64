// Where a segment's elements lie in host memory: inside whole canonical tensors, as in a checkpoint, or part by part, as on a
// trainer rank that holds its own shards and nothing else.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/bytes.h"
#include "tensor/segment.h"

namespace xorbit {

// A view; map and bytes must outlive it. Immutable, safe to share between threads.
class SegmentBytes {
 public:
  // Whole tensors, in layout order. Only those that the map has parts of need to be there.
  static SegmentBytes InTensors(const SegmentMap& map, std::span<const ConstBytes> tensors);
  // One memory a part, its elements end to end in the part's own order: what a rank holds after sharding. kUsage if a length is
  // not the part's.
  static Result<SegmentBytes> InParts(const SegmentMap& map, std::span<const ConstBytes> parts);
  // All elements end to end, in the segment's order. `image` has map.byte_count() bytes.
  static SegmentBytes InImage(const SegmentMap& map, ConstBytes image);

  // The bytes of a run of the map.
  ConstBytes Of(const Run& run) const {
    const Base& base = bases_[run.part_index];
    const uint64_t first = (in_tensors_ ? run.tensor_element : run.segment_element) - base.first_element;
    return {base.bytes + first * unit_bytes_, run.element_count * unit_bytes_};
  }

 private:
  struct Base {
    const uint8_t* bytes = nullptr;
    uint64_t first_element = 0;  // of the tensor, or of the segment: the one at `bytes`
  };
  SegmentBytes(const SegmentMap& map, bool in_tensors);

  uint32_t unit_bytes_;
  bool in_tensors_;
  std::vector<Base> bases_;  // by part
};

// InTensors for each of an owner's segments.
std::vector<SegmentBytes> InTensors(std::span<const SegmentMap> maps, std::span<const ConstBytes> tensors);

}  // namespace xorbit
