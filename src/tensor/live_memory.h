// Live memory as whoever applies sees it: a map, and the bytes behind it.
#pragma once

#include <span>
#include <vector>

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

// All of it by place index, as plans and logs count: regions, then kept copies.
inline std::vector<MutableBytes> PlaceBytesOf(const LiveMemory& live) {
  std::vector<MutableBytes> places(live.regions.begin(), live.regions.end());
  places.insert(places.end(), live.kept.begin(), live.kept.end());
  return places;
}

// Success if the map is of this layout and the memory has every region and kept copy in its size.
Status CheckMemory(const Layout& layout, const LiveMemory& live);

// A checkpoint's tensors (layout order) as the regions of its CanonicalMap, for who only reads: preparing and folding do.
// Nothing may be applied to them.
inline std::vector<MutableBytes> ReadOnlyRegions(std::span<const ConstBytes> tensors) {
  std::vector<MutableBytes> regions;
  for (const ConstBytes tensor : tensors) {
    regions.emplace_back(const_cast<uint8_t*>(tensor.data()), tensor.size());  // NOLINT(cppcoreguidelines-pro-type-const-cast)
  }
  return regions;
}

}  // namespace xorbit
