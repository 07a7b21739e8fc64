// Memory that an update took to stage what it needs and left for the next one, which then need not ask for it: page-locking
// some gigabytes takes longer than an update. What it is, its backend knows.
#pragma once

#include <cstdint>

namespace xorbit {

class KeptMemory {
 public:
  KeptMemory() = default;
  KeptMemory(const KeptMemory&) = delete;
  KeptMemory& operator=(const KeptMemory&) = delete;
  virtual ~KeptMemory() = default;

  virtual uint64_t byte_count() const = 0;
};

}  // namespace xorbit
