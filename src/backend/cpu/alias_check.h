// Tied weights have two names and one place, so a delta must change both names alike: only one of them is written.
//
// Both are summed by position, in two lanes and with the same key; the order in which records come does not matter.
#pragma once

#include <cstdint>
#include <mutex>
#include <unordered_map>

#include "backend/cpu/record_loop.h"

namespace xorbit {

// Thread-safe. The map must outlive it.
class AliasCheck {
 public:
  AliasCheck(const Layout& layout, const LiveMap& map);

  // Takes note of what the record changes under tied names.
  void Add(const RecordTurn& turn);
  // After all records: kRefused names the first pair that differs.
  Status Finish() const;

 private:
  struct Tied {
    uint64_t key = 0;
    StateDigest sum;
  };

  const Layout* layout_;
  const LiveMap* map_;
  std::mutex mutex_;
  std::unordered_map<uint32_t, Tied> tied_;  // by tensor; sums are guarded by mutex_
};

}  // namespace xorbit
