// Milliseconds of pauses by what they went to: one line for each, over all updates.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace xorbit {

class PauseTable {
 public:
  explicit PauseTable(std::string memory) : memory_(std::move(memory)) {}

  void Add(const std::string& what, double milliseconds);
  // "pause,<memory>,<what>,median ms,least,most,updates,bytes,changes", in the order in which they were first added.
  void Print(uint64_t byte_count, uint64_t change_count) const;

 private:
  std::string memory_;
  std::vector<std::pair<std::string, std::vector<double>>> rows_;
};

}  // namespace xorbit
