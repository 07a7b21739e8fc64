// Finds the elements of a tile in live memory by its boxes.
//
// A tile's changes ascend and 32 of them mostly lie in one box, so a warp keeps one box for all its lanes: a place is then a
// comparison and a multiplication away, and behind the box's end comes the next one of a table that the host has planned
// (box_plan.h).
#pragma once

#include "backend/cuda/live_copies.h"

namespace xorbit::cuda {

// Where one lane's element is.
struct Place {
  uint64_t address = 0;
  uint64_t tensor_byte = 0;
  uint64_t tensor_key = 0;
  bool present = false;
};

// All lanes of a warp use it together; but for `offset`, everything is the same in all of them.
template <typename Unit>
class BoxFinder {
 public:
  XORBIT_DEVICE explicit BoxFinder(const TileContext& tile)
      : first_(tile.record.first), span_(tile.record.span), box_(tile.segment->boxes + tile.start.box_index) {
    Enter();
  }

  // Where element `offset` of the tile is; `last` is the greatest offset that any lane asks for. Offsets ascend from call to
  // call; a lane that asks for one behind (of bytes that will be refused) or above the tile's span is told that it is absent.
  XORBIT_DEVICE Place Find(uint32_t offset, uint32_t last) {
    last = last < span_ ? last : span_;
    Place place = PlaceOf(offset);
    while (last >= end_) {
      ++box_;
      Enter();
      if (IsInside(offset)) place = PlaceOf(offset);
    }
    return place;
  }

 private:
  XORBIT_DEVICE void Enter() {
    const LiveBox& box = *box_;
    const uint64_t to_end = box.end - first_;
    end_ = to_end <= span_ ? static_cast<uint32_t>(to_end) : span_ + 1;
    period_ = box.period;
    tensor_key_ = box.tensor_key;
    is_present_ = box.address != 0;
    uint64_t skipped = first_ - box.first;  // elements of the box before the tile; modulo 2^64
    begin_ = box.first > first_ ? static_cast<uint32_t>(box.first - first_) : 0;
    address_ = box.address;
    tensor_byte_ = box.tensor_byte;
    if (period_ == 0) {
      origin_ = 0;
      address_ += skipped * sizeof(Unit);
      tensor_byte_ += skipped * sizeof(Unit);
      return;
    }
    if (box.first > first_) skipped = 0;
    const uint64_t rows = skipped / period_;
    origin_ = begin_ - static_cast<uint32_t>(skipped - rows * period_);
    address_ += rows * box.live_stride;
    tensor_byte_ += rows * box.tensor_stride;
  }

  XORBIT_DEVICE bool IsInside(uint32_t offset) const { return offset - begin_ < end_ - begin_; }

  XORBIT_DEVICE Place PlaceOf(uint32_t offset) const {
    const bool present = is_present_ && IsInside(offset);
    if (period_ == 0) {
      const uint64_t byte = uint64_t{offset} * sizeof(Unit);
      return {address_ + byte, tensor_byte_ + byte, tensor_key_, present};
    }
    const uint32_t at = offset - origin_;
    const uint32_t row = MultiplyHigh(at, box_->magic) >> box_->shift;
    const uint32_t column = at - row * period_;
    const uint64_t byte = uint64_t{column} * sizeof(Unit);
    return {address_ + row * box_->live_stride + byte, tensor_byte_ + row * box_->tensor_stride + byte, tensor_key_,
            present && column < box_->length};
  }

  uint64_t first_;
  uint32_t span_;
  const LiveBox* box_;
  // Of the box, relative to the tile's first element.
  uint32_t begin_ = 0;
  uint32_t end_ = 0;
  uint32_t origin_ = 0;  // where the row of address_ begins
  uint32_t period_ = 0;
  uint64_t address_ = 0;  // of `origin_`
  uint64_t tensor_byte_ = 0;
  uint64_t tensor_key_ = 0;
  bool is_present_ = false;
};

}  // namespace xorbit::cuda
