#include "tensor/segment.h"

#include <algorithm>

#include "base/checked_math.h"
#include "base/text.h"

namespace xorbit {
namespace {

// Where the part ends in its tensor, if it may stand in the segment.
Result<uint64_t> CheckPart(const Layout& layout, uint32_t unit_bytes, uint32_t group, const Part& part) {
  if (part.tensor_index >= layout.tensors().size()) return CorruptError("a part names a tensor that the layout does not have");
  const TensorSpec& tensor = layout.tensors()[part.tensor_index];
  const auto fail = [&](std::string_view why) {
    return CorruptError("part of tensor " + Quoted(tensor.name) + " " + std::string(why));
  };
  if (UnitBytesOf(tensor.dtype) != unit_bytes)
    return fail("does not belong in a segment of " + std::to_string(unit_bytes) + "-byte units");
  if (tensor.group != group) return fail("does not belong in this segment's presence group");
  if (tensor.frozen) return fail("is owned although the tensor is frozen");
  if (part.digits.empty() || part.digits.size() > kMaxDigits) return fail("must have 1 to 8 digits");
  if (part.digits.back().stride != 1) return fail("must end in a digit of stride 1");
  uint64_t inner_extent = 1;
  for (size_t i = part.digits.size(); i-- > 0;) {
    const Digit& digit = part.digits[i];
    if (digit.count == 0) return fail("has a digit of count 0");
    if (digit.stride < inner_extent) return fail("has digits that are not nested");
    const auto reach = CheckedMul(digit.count - 1, digit.stride);
    const auto extent = reach ? CheckedAdd(inner_extent, *reach) : std::nullopt;
    if (!extent) return fail("reaches past 2^64 elements");
    inner_extent = *extent;
  }
  const auto end = CheckedAdd(part.origin, inner_extent);
  if (!end || *end > tensor.unit_count()) return fail("reaches past the tensor's end");
  return *end;
}

}  // namespace

uint64_t Part::element_count() const {
  uint64_t count = 1;
  for (const Digit& digit : digits) count *= digit.count;
  return count;
}

Part WholeTensor(const Layout& layout, uint32_t tensor_index) {
  return {tensor_index, 0, {Digit{layout.tensors()[tensor_index].unit_count(), 1}}};
}

Result<SegmentMap> SegmentMap::Make(const Layout& layout, uint32_t unit_bytes, uint32_t group, std::vector<Part> parts) {
  if (parts.size() > UINT32_MAX) return UnsupportedError("a segment has more than 2^32 parts");
  SegmentMap map;
  map.starts_.reserve(parts.size() + 1);
  map.starts_.push_back(0);
  map.reaches_.reserve(parts.size());
  for (size_t i = 0; i < parts.size(); ++i) {
    XORBIT_ASSIGN_OR_RETURN(uint64_t reach, CheckPart(layout, unit_bytes, group, parts[i]));
    if (i > 0) {
      const Part& before = parts[i - 1];
      const bool ascending = before.tensor_index != parts[i].tensor_index ? before.tensor_index < parts[i].tensor_index
                                                                          : before.origin < parts[i].origin;
      if (!ascending) return CorruptError("a segment's parts must ascend by tensor, then origin");
      if (before.tensor_index == parts[i].tensor_index) reach = std::max(reach, map.reaches_.back());
    }
    // Cannot overflow: nested digits make a part's count at most its tensor's, and CheckedAdd guards the sum of overlapping
    // ones.
    const auto next = CheckedAdd(map.starts_.back(), parts[i].element_count());
    if (!next || !CheckedMul(*next, unit_bytes)) return CorruptError("a segment has more than 2^64 bytes");
    map.starts_.push_back(*next);
    map.reaches_.push_back(reach);
  }
  map.unit_bytes_ = unit_bytes;
  map.group_ = group;
  map.parts_ = std::move(parts);
  return map;
}

size_t SegmentMap::PartAt(uint64_t element) const {
  return static_cast<size_t>(std::upper_bound(starts_.begin(), starts_.end(), element) - starts_.begin()) - 1;
}

size_t SegmentMap::FirstPartReaching(uint32_t tensor_index, uint64_t tensor_element) const {
  const auto ends_before = [&](const Part& part) {
    if (part.tensor_index != tensor_index) return part.tensor_index < tensor_index;
    return reaches_[static_cast<size_t>(&part - parts_.data())] <= tensor_element;
  };
  return static_cast<size_t>(std::partition_point(parts_.begin(), parts_.end(), ends_before) - parts_.begin());
}

Run RunInPart(const SegmentMap& map, size_t part_index, uint64_t at) {
  const Part& part = map.parts()[part_index];
  uint64_t rest = at - map.part_start(part_index);
  const Digit& last = part.digits.back();
  if (part.digits.size() == 1) {
    return {part.tensor_index, static_cast<uint32_t>(part_index), part.origin + rest, at, last.count - rest};
  }
  const uint64_t within_run = rest % last.count;
  rest /= last.count;
  uint64_t tensor_element = part.origin + within_run;
  for (size_t i = part.digits.size() - 1; i-- > 0;) {
    tensor_element += rest % part.digits[i].count * part.digits[i].stride;
    rest /= part.digits[i].count;
  }
  return {part.tensor_index, static_cast<uint32_t>(part_index), tensor_element, at, last.count - within_run};
}

Run RunAt(const SegmentMap& map, uint64_t element) { return RunInPart(map, map.PartAt(element), element); }

RunWalker::RunWalker(const SegmentMap& map, uint64_t first, uint64_t count)
    : map_(&map), at_(first), end_(first + count), part_(count == 0 ? 0 : map.PartAt(first)) {}

bool RunWalker::Next(Run* run) {
  if (at_ >= end_) return false;
  while (map_->part_start(part_ + 1) <= at_) ++part_;
  *run = RunInPart(*map_, part_, at_);
  run->element_count = std::min(run->element_count, end_ - at_);
  at_ += run->element_count;
  return true;
}

void RunFinder::Advance(uint64_t element) {
  // Mostly the next run of the same part, or one of the next parts.
  const size_t part_count = map_->parts().size();
  for (int step = 0; step < 4 && part_ < part_count && map_->part_start(part_ + 1) <= element; ++step) ++part_;
  if (part_ >= part_count || element < map_->part_start(part_) || element >= map_->part_start(part_ + 1)) {
    part_ = map_->PartAt(element);
  }
  run_ = RunInPart(*map_, part_, element);
}

}  // namespace xorbit
