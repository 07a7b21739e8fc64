// Segments: an owner's parts of one unit and one presence group, laid end to end as one flat space of elements.
//
// An *element* here is a unit of UnitBytesOf(dtype) bytes, so a sub-byte tensor counts bytes. A part is affine: an origin in
// its tensor plus nested digits (count, stride), all in elements. A whole tensor, an FSDP range, a TP row shard are one digit
// {count, 1}; a TP column shard is {rows, row_stride}, {columns, 1}. Walking the last digit fastest visits canonical positions
// in ascending order, so a segment's elements ascend within each tensor.
//
//   segment   0 ........ 999 | 1000 ........ 1499 | ...
//   part      tensor 3 whole | tensor 5, [128, 4096] columns 0..127 -> runs of 128, every 4096
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/status.h"
#include "tensor/layout.h"

namespace xorbit {

struct Digit {
  uint64_t count = 0;
  uint64_t stride = 0;  // in elements
  friend bool operator==(const Digit&, const Digit&) = default;
};

inline constexpr uint32_t kMaxDigits = 8;

struct Part {
  uint32_t tensor_index = 0;
  uint64_t origin = 0;        // element of the tensor
  std::vector<Digit> digits;  // slowest first, last stride 1, each stride at least the extent of the digits after it
  uint64_t element_count() const;
  friend bool operator==(const Part&, const Part&) = default;
};

// The part that is all of tensor `tensor_index`, which must not be empty.
Part WholeTensor(const Layout& layout, uint32_t tensor_index);

// A stretch of a segment that is contiguous in its tensor.
struct Run {
  uint32_t tensor_index = 0;
  uint32_t part_index = 0;       // of the map
  uint64_t tensor_element = 0;   // first element, in the tensor
  uint64_t segment_element = 0;  // first element, in the segment
  uint64_t element_count = 0;

  // Where a segment element of the run is in the tensor.
  uint64_t TensorElementOf(uint64_t element) const { return tensor_element + (element - segment_element); }
};

// Maps a segment's elements to canonical positions. Immutable; safe to share between threads.
class SegmentMap {
 public:
  SegmentMap() = default;

  // Checks each part against the layout (unit, group, bounds, digits, not frozen) and their order (tensor, then origin). Parts
  // of one tensor may interleave; that they are disjoint is ProveCoverage's business.
  static Result<SegmentMap> Make(const Layout& layout, uint32_t unit_bytes, uint32_t group, std::vector<Part> parts);

  uint32_t unit_bytes() const { return unit_bytes_; }
  uint32_t group() const { return group_; }
  uint64_t element_count() const { return starts_.empty() ? 0 : starts_.back(); }
  uint64_t byte_count() const { return element_count() * unit_bytes_; }
  const std::vector<Part>& parts() const { return parts_; }

  // First segment element of part `index`; `index` == parts().size() gives element_count().
  uint64_t part_start(size_t index) const { return starts_[index]; }
  // The part that holds `element` < element_count().
  size_t PartAt(uint64_t element) const;
  // First part, in order, that may hold an element of tensor `tensor_index` at or after `tensor_element`; a part of a later
  // tensor or parts().size() if there is none. Parts that interleave may be named although they end before.
  size_t FirstPartReaching(uint32_t tensor_index, uint64_t tensor_element) const;

 private:
  uint32_t unit_bytes_ = 0;
  uint32_t group_ = 0;
  std::vector<Part> parts_;
  std::vector<uint64_t> starts_;   // parts_.size() + 1 entries
  std::vector<uint64_t> reaches_;  // per part: where it or an earlier part of its tensor ends, in the tensor
};

// Walks [first, first + count) of a segment as runs, in order. The map must outlive the walker.
class RunWalker {
 public:
  RunWalker(const SegmentMap& map, uint64_t first, uint64_t count);
  // False when the range is exhausted.
  bool Next(Run* run);

 private:
  const SegmentMap* map_;
  uint64_t at_;
  uint64_t end_;
  size_t part_;
};

// Finds runs of elements that mostly ascend: in the last run by a comparison, in the next parts by a few. The map must outlive
// it. One thread.
class RunFinder {
 public:
  explicit RunFinder(const SegmentMap& map) : map_(&map) {}
  // A run that holds `element` < map.element_count(); it may begin before it. Valid until the next call.
  const Run& Find(uint64_t element) {
    if (element - run_.segment_element >= run_.element_count) Advance(element);
    return run_;
  }

 private:
  void Advance(uint64_t element);

  const SegmentMap* map_;
  size_t part_ = 0;  // of run_
  Run run_;
};

// The run that holds `element` of part `part_index`, from there to the run's end.
Run RunInPart(const SegmentMap& map, size_t part_index, uint64_t element);
// The same for any element < map.element_count(), whose part is searched for.
Run RunAt(const SegmentMap& map, uint64_t element);

}  // namespace xorbit
