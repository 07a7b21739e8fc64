// The part of the imitation engine that knows what each version's tensors are, and finds out by itself when what it has read in
// one step is no version, or not the one that it was told, or two.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "base/xxh3.h"

namespace xorbit::imitation {

enum class Verdict : uint8_t {
  kRight,
  kMixed,  // every tensor is some version's, but not all the same
  kTorn,   // a tensor is no version's
  kOther,  // one whole version, but not the one told
};

class Judge {
 public:
  // What version `sums_.size()` is.
  void Learn(const std::vector<ConstBytes>& tensors) {
    std::vector<uint64_t> sums;
    for (const ConstBytes tensor : tensors) sums.push_back(Xxh3Hash64Of(tensor));
    sums_.push_back(std::move(sums));
  }
  uint64_t version_count() const { return sums_.size(); }

  // Of the sums of one step, in layout order.
  Verdict Of(const std::vector<uint64_t>& read, uint64_t told) const {
    if (told < sums_.size() && read == sums_[told]) return Verdict::kRight;
    if (std::ranges::find(sums_, read) != sums_.end()) return Verdict::kOther;
    for (size_t i = 0; i < read.size(); ++i) {
      const bool is_known = std::ranges::any_of(sums_, [&](const std::vector<uint64_t>& sums) { return sums[i] == read[i]; });
      if (!is_known) return Verdict::kTorn;
    }
    return Verdict::kMixed;
  }

 private:
  std::vector<std::vector<uint64_t>> sums_;  // by version
};

}  // namespace xorbit::imitation
