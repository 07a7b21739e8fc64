#include "backend/due_changes.h"

#include <algorithm>
#include <cassert>

#include "base/checked_math.h"
#include "base/parallel.h"
#include "base/unit.h"

namespace xorbit {
namespace {

constexpr uint64_t kStretchWindows = 64;  // the bits of Stretch::taken

// The first record, from `begin` on, that ends at or after `element`.
uint64_t RecordReaching(const SegmentDecoder& decoder, uint64_t begin, uint64_t element) {
  uint64_t end = decoder.record_count();
  while (begin < end) {
    const uint64_t middle = begin + (end - begin) / 2;
    if (decoder.info(middle).last < element) {
      begin = middle + 1;
    } else {
      end = middle;
    }
  }
  return begin;
}

}  // namespace

DueChanges::DueChanges(const SegmentMap& map, std::unique_ptr<SegmentDecoder> decoder, MutableBytes image)
    : map_(&map),
      decoder_(std::move(decoder)),
      image_(image),
      stretches_(DivideRoundUp(WindowCountOf(map.element_count()), kStretchWindows)) {
  assert(image.size() == map.byte_count());
}

Status DueChanges::TakeAll(int threads) {
  const uint64_t window_count = WindowCountOf(map_->element_count());
  return ParallelFor(threads, stretches_.size(), [&](uint64_t stretch) -> Status {
    Cursor cursor(*this);
    const uint64_t end = std::min(window_count, (stretch + 1) * kStretchWindows);
    for (uint64_t w = stretch * kStretchWindows; w < end; ++w) XORBIT_RETURN_IF_ERROR(cursor.Take(w));
    return {};
  });
}

Status DueChanges::Cursor::Take(uint64_t window_index) {
  Stretch& stretch = due_->stretches_[window_index / kStretchWindows];
  const uint64_t bit = uint64_t{1} << (window_index % kStretchWindows);
  const std::lock_guard lock(stretch.mutex);
  if ((stretch.taken & bit) != 0) return {};
  stretch.taken |= bit;
  const uint64_t first = window_index * kWindowElements;
  return TakeRange(first, first + WindowElementsAt(due_->map_->element_count(), window_index));
}

Status DueChanges::Cursor::TakeRange(uint64_t first, uint64_t end) {
  const SegmentDecoder& decoder = *due_->decoder_;
  const uint32_t unit_bytes = due_->map_->unit_bytes();
  if (!is_loaded_ || info_.last < first) {
    record_index_ = RecordReaching(decoder, record_index_, first);
    is_loaded_ = false;
  }
  for (; record_index_ < decoder.record_count(); ++record_index_, is_loaded_ = false) {
    if (!is_loaded_) {
      info_ = decoder.info(record_index_);
      if (info_.first >= end) return {};
      XORBIT_RETURN_IF_ERROR(decoder.Decode(record_index_, &record_));
      is_loaded_ = true;
      next_change_ = 0;
    }
    uint64_t change = ChangeReaching(first);
    next_change_ = ChangeReaching(end);
    WithUnit(unit_bytes, [&]<typename Unit>() {
      uint8_t* const record_begin = due_->image_.data() + info_.first * sizeof(Unit);
      const uint8_t* const xors = record_.xors.data();
      for (; change < next_change_; ++change) {
        XorUnit<Unit>(record_begin + uint64_t{record_.offsets[change]} * sizeof(Unit), xors + change * sizeof(Unit));
      }
    });
    if (info_.last >= end) return {};
  }
  return {};
}

uint64_t DueChanges::Cursor::ChangeReaching(uint64_t element) const {
  if (element <= info_.first) return next_change_;
  const auto begin = record_.offsets.begin();
  const auto reaching = std::lower_bound(begin + static_cast<ptrdiff_t>(next_change_),
                                         begin + static_cast<ptrdiff_t>(record_.count), element - info_.first);
  return static_cast<uint64_t>(reaching - begin);
}

}  // namespace xorbit
