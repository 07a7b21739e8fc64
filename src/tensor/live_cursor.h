// Finds where canonical granules lie live, for searches that mostly ascend: in the last run by one comparison, otherwise by a
// binary search over the pieces of one tensor.
#pragma once

#include <cstdint>
#include <span>

#include "tensor/live_map.h"

namespace xorbit {

// Granules of one tensor that are contiguous on both sides, or that the track does not hold.
struct LiveRun {
  static constexpr uint32_t kNowhere = UINT32_MAX;

  uint64_t granule = 0;  // first, in the tensor
  uint64_t granule_count = 0;
  uint64_t live_granule = 0;         // where the first lies, in granules from the region's first byte
  uint32_t region_index = kNowhere;  // kNowhere: this track holds none of these granules
  bool counted = false;

  bool present() const { return region_index != kNowhere; }
  bool holds(uint64_t other) const { return other - granule < granule_count; }
  uint64_t LiveGranuleOf(uint64_t other) const { return live_granule + (other - granule); }
};

// One track of one tensor; a tensor's copies are found by one cursor per track. Where the granule is the tensor's unit (as of
// every tensor but nibble repacks), granules are elements, and the byte is live granule x unit bytes. The map must outlive the
// cursor. One thread.
class LiveCursor {
 public:
  // `track` < map.track_count(tensor_index).
  LiveCursor(const LiveMap& map, uint32_t tensor_index, uint32_t track) : map_(&map), pieces_(map.track(tensor_index, track)) {}
  // Over a track that has been looked up before.
  LiveCursor(const LiveMap& map, std::span<const Piece> track) : map_(&map), pieces_(track) {}

  // A run that holds `granule`, present or not; it may begin before it. Valid until the next call. A run past the last piece
  // has no end: it reaches to 2^64.
  const LiveRun& Find(uint64_t granule) {
    if (!run_.holds(granule)) Advance(granule);
    return run_;
  }

 private:
  void Advance(uint64_t granule);

  const LiveMap* map_;
  std::span<const Piece> pieces_;
  size_t at_ = 0;  // the last piece that began at or before the granule sought
  LiveRun run_;
};

}  // namespace xorbit
