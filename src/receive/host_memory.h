// Live memory of our own on the host: what an engine without a loader, a demo or a test serves from.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "base/bytes.h"
#include "receive/served_memory.h"

namespace xorbit {

// Puts the canonical bytes of a checkpoint (layout order) wherever the map of this host memory places them.
void LoadTensors(const LiveMemory& live, std::span<const ConstBytes> tensors);
// Whether this host memory holds, bit for bit, what LoadTensors would put there.
bool HoldsTensors(const LiveMemory& live, std::span<const ConstBytes> tensors);

class HostMemory final : public ServedMemory {
 public:
  // Memory for every region and kept copy of the map, all zero.
  explicit HostMemory(const Layout& layout, LiveMap map);

  const LiveMemory& live() const override { return memory_; }

 private:
  LiveMap map_;
  std::vector<Buffer> regions_;
  std::vector<Buffer> kept_;
  std::vector<MutableBytes> region_views_;
  std::vector<MutableBytes> kept_views_;
  LiveMemory memory_;
};

}  // namespace xorbit
