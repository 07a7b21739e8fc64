#include "receive/host_memory.h"

#include <algorithm>
#include <cstring>

#include "tensor/live_bits.h"
#include "tensor/live_cast.h"
#include "tensor/live_cursor.h"

namespace xorbit {
namespace {

// A stretch that is contiguous on both sides. Positions in granules of `bits`; live ones of `live_bits`.
struct Stretch {
  uint32_t tensor_index;
  uint32_t region_index;
  uint64_t granule;
  uint64_t live_granule;
  uint64_t count;
  uint32_t bits;
  uint32_t live_bits;
  Cast cast;
};

// Visits every stretch of some pieces until `visit` says no.
template <typename Visit>
bool VisitTrack(const LiveMap& map, std::span<const Piece> track, uint32_t live_bits, Cast cast, Visit&& visit) {
  if (track.empty()) return true;
  LiveCursor cursor(map, track);
  const PieceClass& last = map.class_of(track.back());
  const uint64_t end = track.back().origin + last.canonical_extent();
  for (uint64_t at = track.front().origin; at < end;) {
    const LiveRun& run = cursor.Find(at);
    const uint64_t count = std::min(run.granule + run.granule_count, end) - at;
    if (run.present() && !visit(Stretch{track.front().tensor_index, run.region_index, at, run.LiveGranuleOf(at), count,
                                        last.granule_bits, live_bits == 0 ? last.granule_bits : live_bits, cast})) {
      return false;
    }
    at += count;
  }
  return true;
}

template <typename Visit>
bool VisitMap(const LiveMap& map, Visit&& visit) {
  for (size_t t = 0; t + 1 < map.track_starts().size(); ++t) {
    const uint32_t begin = map.track_starts()[t];
    if (!VisitTrack(map, map.pieces().subspan(begin, map.track_starts()[t + 1] - begin), 0, Cast::kCopy, visit)) return false;
  }
  for (const ShadowBinding& shadow : map.shadows()) {
    const uint32_t bits = LiveBitsOf(shadow.cast, map.class_of(shadow.piece).granule_bits);
    if (!VisitTrack(map, {&shadow.piece, 1}, bits, shadow.cast, visit)) return false;
  }
  return true;
}

// Where whole bytes move without a cast, a stretch is one copy.
bool IsPlain(const Stretch& stretch) { return stretch.cast == Cast::kCopy && stretch.bits % 8 == 0; }

// Granule `i` of a stretch, as live memory has to hold it.
uint64_t WantedBits(const Stretch& stretch, ConstBytes tensor, uint64_t i) {
  const uint64_t at = (stretch.granule + i) * stretch.bits;
  uint64_t bits = 0;
  if (stretch.bits < 8) {
    bits = uint64_t{tensor[at / 8]} >> (at % 8) & LowBits(stretch.bits);
  } else {
    std::memcpy(&bits, tensor.data() + at / 8, stretch.bits / 8);
  }
  return CastBits(stretch.cast, bits);
}

void Copy(const Stretch& stretch, ConstBytes tensor, MutableBytes region) {
  if (IsPlain(stretch)) {
    const uint64_t unit = stretch.bits / 8;
    std::memcpy(region.data() + stretch.live_granule * unit, tensor.data() + stretch.granule * unit, stretch.count * unit);
    return;
  }
  for (uint64_t i = 0; i < stretch.count; ++i) {
    const uint64_t at = (stretch.live_granule + i) * stretch.live_bits;
    const uint64_t wanted = WantedBits(stretch, tensor, i);
    XorGranule(region, at, stretch.live_bits, LoadGranule(region, at, stretch.live_bits) ^ wanted);
  }
}

bool IsEqual(const Stretch& stretch, ConstBytes tensor, MutableBytes region) {
  if (IsPlain(stretch)) {
    const uint64_t unit = stretch.bits / 8;
    return std::memcmp(region.data() + stretch.live_granule * unit, tensor.data() + stretch.granule * unit,
                       stretch.count * unit) == 0;
  }
  for (uint64_t i = 0; i < stretch.count; ++i) {
    const uint64_t at = (stretch.live_granule + i) * stretch.live_bits;
    if (LoadGranule(region, at, stretch.live_bits) != WantedBits(stretch, tensor, i)) return false;
  }
  return true;
}

}  // namespace

HostMemory::HostMemory(const Layout& layout, LiveMap map) : map_(std::move(map)) {
  for (const LiveRegion& region : map_.regions()) regions_.emplace_back(region.byte_count);
  for (const uint32_t tensor_index : map_.kept_tensors()) kept_.emplace_back(layout.tensors()[tensor_index].byte_count);
  region_views_.assign(regions_.begin(), regions_.end());
  kept_views_.assign(kept_.begin(), kept_.end());
  memory_ = {&map_, region_views_, kept_views_};
}

void LoadTensors(const LiveMemory& live, std::span<const ConstBytes> tensors) {
  VisitMap(*live.map, [&](const Stretch& stretch) {
    Copy(stretch, tensors[stretch.tensor_index], live.regions[stretch.region_index]);
    return true;
  });
  for (size_t i = 0; i < live.kept.size(); ++i) std::ranges::copy(tensors[live.map->kept_tensors()[i]], live.kept[i].begin());
}

bool HoldsTensors(const LiveMemory& live, std::span<const ConstBytes> tensors) {
  for (size_t i = 0; i < live.kept.size(); ++i) {
    if (!std::ranges::equal(tensors[live.map->kept_tensors()[i]], live.kept[i])) return false;
  }
  return VisitMap(*live.map, [&](const Stretch& stretch) {
    return IsEqual(stretch, tensors[stretch.tensor_index], live.regions[stretch.region_index]);
  });
}

}  // namespace xorbit
