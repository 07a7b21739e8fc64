// The frame grid of the mask codecs: which frame an element belongs to, and how a segment's frames are shared out to threads.
// Pure planning, no bytes.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "tensor/segment.h"

namespace xorbit {

// Segment elements [first, end).
struct ElementRange {
  uint64_t first = 0;
  uint64_t end = 0;
  uint64_t element_count() const { return end - first; }
  friend bool operator==(const ElementRange&, const ElementRange&) = default;
};

// Cuts each part of a segment, from the part's first element, into frames of frame_elements (the part's last one may be
// shorter). Parts are the unit because a part is what an owner or a receiver holds or lacks. The map must outlive the grid.
class FrameGrid {
 public:
  FrameGrid(const SegmentMap& map, uint64_t frame_elements) : map_(&map), frame_elements_(frame_elements) {}

  // The frame that holds `element` < map.element_count().
  ElementRange FrameOf(uint64_t element) const {
    const size_t part = map_->PartAt(element);
    const uint64_t start = map_->part_start(part);
    const uint64_t first = element - (element - start) % frame_elements_;
    return {first, std::min(first + frame_elements_, map_->part_start(part + 1))};
  }

  // The whole segment as stretches of whole frames, each at least `least_elements` long (the last may be shorter) and less than
  // a frame longer than that.
  std::vector<ElementRange> Stretches(uint64_t least_elements) const {
    std::vector<ElementRange> stretches;
    const uint64_t end = map_->element_count();
    for (uint64_t at = 0; at < end;) {
      const uint64_t stretch_end = end - at <= least_elements ? end : FrameOf(at + least_elements - 1).end;
      stretches.push_back({at, stretch_end});
      at = stretch_end;
    }
    return stretches;
  }

 private:
  const SegmentMap* map_;
  uint64_t frame_elements_;
};

}  // namespace xorbit
