// Live memory of our own on the host: what an engine without a loader, a demo or a test serves from.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "base/bytes.h"
#include "tensor/live_memory.h"

namespace xorbit {

// Does not move: memory() refers to it.
class HostMemory {
 public:
  // Memory for every region and kept copy of the map, all zero.
  explicit HostMemory(const Layout& layout, LiveMap map);
  HostMemory(const HostMemory&) = delete;
  HostMemory& operator=(const HostMemory&) = delete;

  const LiveMemory& memory() const { return memory_; }
  const LiveMap& map() const { return map_; }
  uint64_t byte_count() const;  // of regions and copies

  // Puts the canonical bytes of a checkpoint (layout order) wherever the map places them.
  void Load(std::span<const ConstBytes> tensors);
  // Whether memory holds, bit for bit, what Load(tensors) would put there.
  bool Holds(std::span<const ConstBytes> tensors) const;

 private:
  LiveMap map_;
  std::vector<Buffer> regions_;
  std::vector<Buffer> kept_;
  std::vector<MutableBytes> region_views_;
  std::vector<MutableBytes> kept_views_;
  LiveMemory memory_;
};

}  // namespace xorbit
