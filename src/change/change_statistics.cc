#include "change/change_statistics.h"

#include <algorithm>
#include <bit>
#include <cmath>

#include "base/unit.h"

namespace xorbit {
namespace {

constexpr size_t kMaxWholeValues = 65536;

// Entropy in bits of the distribution that these counts show.
template <typename Counts>
double EntropyOf(const Counts& counts, uint64_t total) {
  double bits = 0;
  for (const uint64_t count : counts) {
    if (count == 0) continue;
    const double p = static_cast<double>(count) / static_cast<double>(total);
    bits -= p * std::log2(p);
  }
  return bits;
}

}  // namespace

Status ChangeStatistics::Add(const ChangeSource& source) {
  const uint64_t window_count = WindowCountOf(source.element_count());
  const auto cursor = source.Open(0, window_count);
  WindowChanges window;
  window.Reserve(unit_bytes_, source.has_values());
  std::vector<uint64_t> small_values(unit_bytes_ <= 2 ? 65536 : 0);  // 8- and 16-bit values are counted without the map
  bool any = false;
  uint64_t previous = 0;
  for (uint64_t index = 0; index < window_count; ++index) {
    XORBIT_RETURN_IF_ERROR(cursor->Next(&window));
    for (uint32_t i = 0; i < window.count; ++i) {
      const uint64_t element = index * kWindowElements + window.positions[i];
      if (any) {
        const auto bucket = static_cast<uint32_t>(std::bit_width(element - previous) - 1);
        ++gap_buckets_[std::min(bucket, kGapBucketCount - 1)];
      }
      any = true;
      previous = element;
      const uint64_t value = UnitBits(window.xors.data() + uint64_t{i} * unit_bytes_, unit_bytes_);
      if (small_values.empty()) {
        AddValue(value);
      } else {
        ++small_values[value];
      }
      for (uint32_t plane = 0; plane < unit_bytes_; ++plane) {
        const uint8_t byte = static_cast<uint8_t>(value >> (8 * plane));
        ++plane_counts_[plane][byte];
        changed_byte_count_ += byte != 0 ? 1 : 0;
      }
    }
    change_count_ += window.count;
  }
  for (uint64_t value = 0; value < small_values.size(); ++value) {
    if (small_values[value] != 0) values_[value] += small_values[value];
  }
  element_count_ += source.element_count();
  return {};
}

void ChangeStatistics::AddValue(uint64_t value) {
  if (too_many_values_) return;
  ++values_[value];
  if (values_.size() > kMaxWholeValues) too_many_values_ = true;
}

double ChangeStatistics::density() const {
  return element_count_ == 0 ? 0 : static_cast<double>(change_count_) / static_cast<double>(element_count_);
}

double ChangeStatistics::PositionEntropy() const {
  const double p = density();
  if (p <= 0 || p >= 1) return 0;
  return (-p * std::log2(p) - (1 - p) * std::log2(1 - p)) / p;
}

double ChangeStatistics::ValueEntropy() const {
  if (change_count_ == 0) return 0;
  if (!too_many_values_) {
    std::vector<uint64_t> counts;
    counts.reserve(values_.size());
    for (const auto& [value, count] : values_) counts.push_back(count);
    return EntropyOf(counts, change_count_);
  }
  double bits = 0;
  for (uint32_t plane = 0; plane < unit_bytes_; ++plane) bits += EntropyOf(plane_counts_[plane], change_count_);
  return bits;
}

std::vector<std::pair<uint64_t, uint64_t>> ChangeStatistics::TopValues(size_t count) const {
  std::vector<std::pair<uint64_t, uint64_t>> all(values_.begin(), values_.end());
  const size_t kept = std::min(count, all.size());
  std::partial_sort(all.begin(), all.begin() + static_cast<ptrdiff_t>(kept), all.end(), [](const auto& a, const auto& b) {
    return a.second != b.second ? a.second > b.second : a.first < b.first;
  });
  all.resize(kept);
  return all;
}

}  // namespace xorbit
