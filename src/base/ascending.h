// Searches in short ascending lists, such as a record's offsets, that are cut into many short runs.
#pragma once

#include <cstdint>

namespace xorbit {

// values[begin] is the first number of a run of `run_count` >= 1 numbers: the first index in (begin, end] whose value is past
// the run. values[begin, end) ascend strictly. Eight at a time, so that nothing has to be guessed about where short runs end.
inline uint32_t EndOfRun(const uint32_t* values, uint32_t begin, uint32_t end, uint64_t run_count) {
  const uint32_t first = values[begin];
  const uint32_t last = run_count - 1 > UINT32_MAX - first ? UINT32_MAX : first + static_cast<uint32_t>(run_count - 1);
  if (values[end - 1] <= last) return end;
  constexpr uint32_t kStep = 8;
  uint32_t at = begin;
  while (at + kStep <= end) {
    uint32_t inside = 0;
    for (uint32_t k = 0; k < kStep; ++k) inside += values[at + k] <= last ? 1 : 0;
    at += inside;
    if (inside < kStep) return at;
  }
  while (values[at] <= last) ++at;
  return at;
}

}  // namespace xorbit
