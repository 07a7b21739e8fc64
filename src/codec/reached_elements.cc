#include "codec/reached_elements.h"

#include <algorithm>
#include <tuple>

namespace xorbit {
namespace {

// Calls visit(tensor index, begin, end), false to stop, for each part that segment elements [first, end) lie in: the stretch of
// the tensor that they span.
template <typename Visit>
void ForEachStretch(const SegmentMap& map, uint64_t first, uint64_t end, Visit&& visit) {
  for (size_t part = map.PartAt(first); first < end; ++part) {
    const uint64_t part_end = std::min(end, map.part_start(part + 1));
    // Within a part, segment order is tensor order.
    const uint64_t tensor_first = RunInPart(map, part, first).tensor_element;
    const uint64_t tensor_last = RunInPart(map, part, part_end - 1).tensor_element;
    if (!visit(map.parts()[part].tensor_index, tensor_first, tensor_last + 1)) return;
    first = part_end;
  }
}

}  // namespace

void ReachedElements::Add(const SegmentMap& map, const SegmentDecoder& decoder) {
  for (uint64_t index = 0; index < decoder.record_count(); ++index) {
    const RecordInfo info = decoder.info(index);
    ForEachStretch(map, info.first, info.last + 1, [&](uint32_t tensor_index, uint64_t begin, uint64_t end) {
      Interval* last = intervals_.empty() ? nullptr : &intervals_.back();
      if (last != nullptr && last->tensor_index == tensor_index && last->begin <= begin && begin <= last->end) {
        last->end = std::max(last->end, end);
      } else {
        intervals_.push_back({tensor_index, begin, end});
      }
      return true;
    });
  }
}

void ReachedElements::Seal() {
  std::sort(intervals_.begin(), intervals_.end(), [](const Interval& a, const Interval& b) {
    return std::tie(a.tensor_index, a.begin) < std::tie(b.tensor_index, b.begin);
  });
  size_t kept = 0;
  for (const Interval& interval : intervals_) {
    Interval* last = kept == 0 ? nullptr : &intervals_[kept - 1];
    if (last != nullptr && last->tensor_index == interval.tensor_index && interval.begin <= last->end) {
      last->end = std::max(last->end, interval.end);
    } else {
      intervals_[kept++] = interval;
    }
  }
  intervals_.resize(kept);
}

bool ReachedElements::Touch(const SegmentMap& map, uint64_t first, uint64_t count) const {
  bool touched = false;
  ForEachStretch(map, first, first + count, [&](uint32_t tensor_index, uint64_t begin, uint64_t end) {
    // The first interval that ends past the stretch's begin.
    const auto at = std::partition_point(intervals_.begin(), intervals_.end(), [&](const Interval& interval) {
      return interval.tensor_index != tensor_index ? interval.tensor_index < tensor_index : interval.end <= begin;
    });
    touched = at != intervals_.end() && at->tensor_index == tensor_index && at->begin < end;
    return !touched;
  });
  return touched;
}

}  // namespace xorbit
