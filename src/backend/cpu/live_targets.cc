#include "backend/cpu/live_targets.h"

#include <algorithm>

namespace xorbit {
namespace {

// Lists changes [begin, begin + count), a step too far at the most. `offsets` has `offset_count` entries.
inline void List(uint64_t base, uint32_t unit_shift, std::span<const uint32_t> offsets, uint32_t begin, uint32_t count,
                 uint64_t* addresses, uint32_t* changes) {
  constexpr uint32_t kStep = LiveTargets::kStep;
  uint32_t i = 0;
  for (; i < count && begin + i + kStep <= offsets.size(); i += kStep) {
    for (uint32_t k = 0; k < kStep; ++k) {
      addresses[i + k] = base + (uint64_t{offsets[begin + i + k]} << unit_shift);
      changes[i + k] = begin + i + k;
    }
  }
  for (; i < count; ++i) {
    addresses[i] = base + (uint64_t{offsets[begin + i]} << unit_shift);
    changes[i] = begin + i;
  }
}

}  // namespace

bool TargetLister::Next(LiveTargets* targets) {
  const std::span<const uint32_t> offsets = planned_->record->offsets;
  const auto unit_shift = static_cast<uint32_t>(std::countr_zero(planned_->unit_bytes));
  uint32_t at = 0;
  while (stretch_ != end_ && at < LiveTargets::kCapacity) {
    const uint32_t left = which_ == Which::kWritten && !stretch_->written ? 0 : stretch_->end - stretch_->begin - done_;
    const uint32_t count = std::min(left, LiveTargets::kCapacity - at);
    const uint64_t base = AddressOf(planned_->places[stretch_->place_index].data()) + stretch_->live_origin;
    List(base, unit_shift, offsets, stretch_->begin + done_, count, targets->addresses.data() + at,
         targets->changes.data() + at);
    at += count;
    done_ += count;
    if (count < left) break;
    ++stretch_;
    done_ = 0;
  }
  targets->count = at;
  if (at == 0) return false;
  std::fill_n(targets->addresses.data() + at, kLiveLookAhead, targets->addresses[at - 1]);
  return true;
}

}  // namespace xorbit
