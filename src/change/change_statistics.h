// What an update looks like, and the fewest bits in which it could be sent: the yardstick for every codec.
//
// The bound treats positions as independent (each element changes with the update's density) and values as drawn from their
// histogram: log2 of the number of ways, per change H(p) / p + H(value). Real updates cluster, so a codec may go a little
// below.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <vector>

#include "change/change_source.h"

namespace xorbit {

inline constexpr uint32_t kGapBucketCount = 33;

class ChangeStatistics {
 public:
  explicit ChangeStatistics(uint32_t unit_bytes) : unit_bytes_(unit_bytes) {}

  // Adds every window of the source, in order, so that gaps are seen across windows.
  Status Add(const ChangeSource& source);

  uint32_t unit_bytes() const { return unit_bytes_; }
  uint64_t element_count() const { return element_count_; }
  uint64_t change_count() const { return change_count_; }
  uint64_t changed_byte_count() const { return changed_byte_count_; }
  double density() const;

  // Bits per change; 0 without changes.
  double PositionEntropy() const;
  // Of the XOR value as a whole where there are at most 2^16 different ones, else summed over byte planes.
  double ValueEntropy() const;
  // Positions and values of all changes together.
  double EntropyBits() const { return static_cast<double>(change_count_) * (PositionEntropy() + ValueEntropy()); }

  // Bucket b counts changes whose distance to the one before is in [2^b, 2^(b+1)); the last bucket holds all longer ones.
  const std::array<uint64_t, kGapBucketCount>& gap_buckets() const { return gap_buckets_; }
  // The most frequent XOR values and their counts, most frequent first.
  std::vector<std::pair<uint64_t, uint64_t>> TopValues(size_t count) const;

 private:
  void AddValue(uint64_t value);

  uint32_t unit_bytes_;
  uint64_t element_count_ = 0;
  uint64_t change_count_ = 0;
  uint64_t changed_byte_count_ = 0;
  std::array<uint64_t, kGapBucketCount> gap_buckets_{};
  std::map<uint64_t, uint64_t> values_;  // whole values, while there are few
  bool too_many_values_ = false;         // then values_ is incomplete
  std::array<std::array<uint64_t, 256>, 8> plane_counts_{};
};

}  // namespace xorbit
