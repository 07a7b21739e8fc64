// How much to do before the next pause, and how long that pause is.
//
// What a unit of work costs is learnt from slices as they end. While an engine serves, a slice may wait a long time before its
// first block finds a place, and that wait harms nobody: it must not lengthen the pauses. So a unit is taken to cost what it
// did in the fastest of the last slices.
#pragma once

#include <array>
#include <cstdint>

namespace xorbit::cuda {

struct PaceLimits {
  double slice_seconds = 0;  // what a slice should take; above 0
  double share = 1;          // of the time, in which slices run: above 0, at most 1
  uint64_t least_units = 1;  // of a slice: what the device does at once, so that less would take as long
};

class SlicePacer {
 public:
  SlicePacer(uint64_t unit_count, const PaceLimits& limits) : limits_(limits), unit_count_(unit_count) {}

  bool done() const { return begin_ == unit_count_; }
  // The next slice: units [begin, end), at least one unless done.
  uint64_t begin() const { return begin_; }
  uint64_t end() const;
  // That slice ran, and took so long. Returns the seconds to wait before the next one: 0 after the last.
  double Finish(double seconds);

 private:
  static constexpr uint32_t kRemembered = 8;
  double LeastUnitSeconds() const;

  PaceLimits limits_;
  uint64_t unit_count_;
  uint64_t begin_ = 0;
  uint64_t last_units_ = 0;  // 0: no slice has run
  std::array<double, kRemembered> unit_seconds_{};
  uint64_t slice_count_ = 0;
};

}  // namespace xorbit::cuda
