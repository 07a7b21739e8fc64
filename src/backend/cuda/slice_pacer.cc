#include "backend/cuda/slice_pacer.h"

#include <algorithm>

namespace xorbit::cuda {

double SlicePacer::LeastUnitSeconds() const {
  const auto count = static_cast<std::ptrdiff_t>(std::min<uint64_t>(slice_count_, kRemembered));
  return *std::min_element(unit_seconds_.begin(), unit_seconds_.begin() + count);
}

uint64_t SlicePacer::end() const {
  const uint64_t left = unit_count_ - begin_;
  if (slice_count_ == 0) return begin_ + std::min(left, limits_.least_units);
  // A slice that was cheap by chance says little about one many times its size.
  constexpr uint64_t kMostGrowth = 4;
  const uint64_t most = std::max(limits_.least_units, last_units_ * kMostGrowth);
  const double fitting = std::min(limits_.slice_seconds / std::max(LeastUnitSeconds(), 1e-12), static_cast<double>(most));
  return begin_ + std::min(left, std::max(limits_.least_units, static_cast<uint64_t>(fitting)));
}

double SlicePacer::Finish(double seconds) {
  last_units_ = end() - begin_;
  begin_ += last_units_;
  unit_seconds_[slice_count_++ % kRemembered] = seconds / static_cast<double>(last_units_);
  if (done()) return 0;
  return LeastUnitSeconds() * static_cast<double>(last_units_) * (1 / limits_.share - 1);
}

}  // namespace xorbit::cuda
