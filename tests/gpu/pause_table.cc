// Rows keep the order in which they were first added, which is the order of the pause.
#include "pause_table.h"

#include <fmt/core.h>

#include <algorithm>
#include <cstdio>

namespace xorbit {

void PauseTable::Add(const std::string& what, double milliseconds) {
  auto row = std::ranges::find(rows_, what, [](const auto& one) { return one.first; });
  if (row == rows_.end()) row = rows_.insert(rows_.end(), {what, {}});
  row->second.push_back(milliseconds);
}

void PauseTable::Print(uint64_t byte_count, uint64_t change_count) const {
  for (auto [what, values] : rows_) {
    std::ranges::sort(values);
    fmt::print("pause,{},{},{:.3f},{:.3f},{:.3f},{},{},{}\n", memory_, what, values[values.size() / 2], values.front(),
               values.back(), values.size(), byte_count, change_count);
  }
  (void)std::fflush(stdout);
}

}  // namespace xorbit
