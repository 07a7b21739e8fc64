// Wall time since construction, and the median of several measurements: what measuring code needs beside the stages of
// base/stage_timer.h.
#pragma once

#include <algorithm>
#include <cassert>
#include <chrono>
#include <vector>

namespace xorbit {

class Stopwatch {
 public:
  double seconds() const { return std::chrono::duration<double>(std::chrono::steady_clock::now() - start_).count(); }

 private:
  std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
};

// The larger of the two in the middle if their count is even. Needs at least one value.
inline double Median(std::vector<double> values) {
  assert(!values.empty());
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

}  // namespace xorbit
