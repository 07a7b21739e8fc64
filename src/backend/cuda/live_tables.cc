#include "backend/cuda/live_tables.h"

#include <algorithm>
#include <cassert>

namespace xorbit::cuda {
namespace {

// Whether the counted shadows of a tensor hold all of it once: then the copy itself may count.
bool AllCountOnce(const LiveMap& map, std::span<const ShadowBinding> shadows, uint64_t unit_count) {
  uint64_t end = 0;
  for (const ShadowBinding& shadow : shadows) {
    const PieceClass& shape = map.class_of(shadow.piece);
    if (!shadow.piece.counted) continue;
    if (shape.digit_count != 1 || shadow.piece.origin != end) return false;
    end += shape.run_length();
  }
  return end == unit_count;
}

class KeptTracks {
 public:
  KeptTracks(const Layout& layout, const LiveMap& map, LiveTables* tables) : layout_(layout), map_(map), tables_(tables) {}

  void Add(uint32_t tensor_index, uint32_t region_index) {
    const TensorSpec& tensor = layout_.tensors()[tensor_index];
    TensorTracks tracks{static_cast<uint32_t>(tables_->track_starts.size() - 1), 0, 0};
    if (tensor.byte_count > 0) AddTracks(tensor_index, region_index, &tracks);
    tables_->kept_tracks.push_back(tracks);
  }

 private:
  // One that writes the whole copy, and, if that must not count as a whole, one that only counts for each shadow that does.
  void AddTracks(uint32_t tensor_index, uint32_t region_index, TensorTracks* tracks) {
    const TensorSpec& tensor = layout_.tensors()[tensor_index];
    const std::span<const ShadowBinding> shadows = map_.shadows_of(tensor_index);
    const bool all_count = shadows.empty() ? std::ranges::any_of(map_.derived_of(tensor_index), &DerivedBinding::counted)
                                           : AllCountOnce(map_, shadows, tensor.unit_count());
    PieceClass whole{.granule_bits = 8 * UnitBytesOf(tensor.dtype), .digit_count = 1};
    whole.digits[0] = {tensor.unit_count(), 1, 1};
    AddTrack(whole, {.tensor_index = tensor_index, .region_index = region_index, .counted = all_count});
    tracks->count = tracks->written_count = 1;
    if (all_count) return;
    for (const ShadowBinding& shadow : shadows) {
      if (!shadow.piece.counted) continue;
      PieceClass shape = map_.class_of(shadow.piece);
      for (LiveDigit& digit : shape.digits) digit.live_stride = digit.canonical_stride;
      AddTrack(shape, {.tensor_index = tensor_index,
                       .region_index = region_index,
                       .origin = shadow.piece.origin,
                       .live_origin = shadow.piece.origin});
      ++tracks->count;
    }
  }

  void AddTrack(const PieceClass& shape, Piece piece) {
    piece.class_index = static_cast<uint32_t>(tables_->classes.size());
    tables_->classes.push_back(shape);
    tables_->pieces.push_back(piece);
    tables_->track_starts.push_back(static_cast<uint32_t>(tables_->pieces.size()));
  }

  const Layout& layout_;
  const LiveMap& map_;
  LiveTables* tables_;
};

}  // namespace

TensorTracks LiveTables::TracksOf(const LiveMap& map, uint32_t tensor_index) const {
  const uint32_t source = map.alias_of(tensor_index).value_or(tensor_index);
  const std::optional<size_t> kept = map.kept_index_of(source);
  TensorTracks tracks =
      kept ? kept_tracks[*kept] : TensorTracks{map.tensor_tracks()[source], map.track_count(source), map.track_count(source)};
  if (source != tensor_index) tracks.written_count = 0;
  return tracks;
}

std::vector<RegionBounds> PlacesOf(const LiveMemory& live) {
  std::vector<RegionBounds> places;
  for (const MutableBytes stretch : PlaceBytesOf(live)) {
    const auto begin = reinterpret_cast<uint64_t>(stretch.data());
    places.push_back({begin, begin + stretch.size()});
  }
  return places;
}

LiveTables MakeLiveTables(const Layout& layout, const LiveMap& map, std::span<const RegionBounds> places) {
  assert(places.size() == map.regions().size() + map.kept_tensors().size());
  LiveTables tables;
  tables.regions.assign(places.begin(), places.end());
  tables.pieces.assign(map.pieces().begin(), map.pieces().end());
  tables.track_starts.assign(map.track_starts().begin(), map.track_starts().end());
  tables.classes.assign(map.classes().begin(), map.classes().end());
  KeptTracks kept(layout, map, &tables);
  for (size_t i = 0; i < map.kept_tensors().size(); ++i) {
    kept.Add(map.kept_tensors()[i], static_cast<uint32_t>(map.regions().size() + i));
  }
  for (const ShadowBinding& shadow : map.shadows()) {
    const size_t kept_index = map.kept_index_of(shadow.piece.tensor_index).value();
    tables.shadows.push_back({.piece = shadow.piece,
                              .kept_address = places[map.regions().size() + kept_index].begin,
                              .image_address = places[shadow.piece.region_index].begin,
                              .image_bytes = LiveBitsOf(shadow.cast, map.class_of(shadow.piece).granule_bits) / 8,
                              .cast = shadow.cast});
  }
  return tables;
}

}  // namespace xorbit::cuda
