// Live memory as whoever applies sees it: a map, and the bytes behind it.
#pragma once

#include <span>

#include "base/bytes.h"
#include "tensor/live_map.h"

namespace xorbit {

// Everything outlives what is prepared for it. The map object may be assigned another map when the engine moves its weights:
// what was prepared before then refuses to be applied, because the epoch has changed.
struct LiveMemory {
  const LiveMap* map = nullptr;
  std::span<const MutableBytes> regions;  // parallel to map->regions()
  std::span<const MutableBytes> kept;     // parallel to map->kept_tensors(): canonical copies of whole tensors
};

}  // namespace xorbit
