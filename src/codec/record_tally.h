// Sums per record to which many threads add in any order.
//
// A fold meets a record in pieces: its windows cut it, and so do the owners of the target. What the pieces add up to is what
// the record says.
#pragma once

#include <atomic>
#include <cstdint>
#include <vector>

#include "codec/change_digest.h"

namespace xorbit {

class RecordTally {
 public:
  // For as many records as each input has. Thread-safe from then on.
  explicit RecordTally(const std::vector<uint64_t>& record_counts) {
    for (const uint64_t count : record_counts) sums_.emplace_back(count);
  }
  void Add(size_t input, uint64_t record, const ChangeDigest& sum) {
    sums_[input][record].before.fetch_add(sum.before, std::memory_order_relaxed);
    sums_[input][record].after.fetch_add(sum.after, std::memory_order_relaxed);
  }
  // Lane 0, once nobody adds any more.
  ChangeDigest Get(size_t input, uint64_t record) const {
    return {sums_[input][record].before.load(), sums_[input][record].after.load(), 0};
  }

 private:
  struct Sums {
    std::atomic<uint64_t> before{0};
    std::atomic<uint64_t> after{0};
  };
  std::vector<std::vector<Sums>> sums_;
};

}  // namespace xorbit
