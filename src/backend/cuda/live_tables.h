// The live map as kernels read it: kept copies are regions like the map's own, and pieces place their tensors there, so that
// whatever finds and changes elements knows nothing of shadows. What only shadows need stands beside it. Pure.
#pragma once

#include <span>
#include <vector>

#include "backend/cuda/update_on_device.h"
#include "tensor/live_memory.h"

namespace xorbit::cuda {

// Consecutive tracks; those from written_count on are only read.
struct TensorTracks {
  uint32_t begin = 0;
  uint32_t count = 0;
  uint32_t written_count = 0;
};

struct LiveTables {
  std::vector<RegionBounds> regions;  // the map's, then one for each kept copy
  std::vector<Piece> pieces;
  std::vector<uint32_t> track_starts;
  std::vector<PieceClass> classes;
  std::vector<ShadowOnDevice> shadows;    // parallel to the map's
  std::vector<TensorTracks> kept_tracks;  // by kept tensor

  // Where changes of a tensor go: of an alias those of the tensor that it names, none of them written.
  TensorTracks TracksOf(const LiveMap& map, uint32_t tensor_index) const;
};

// Where the memory's regions lie, and after them its kept copies.
std::vector<RegionBounds> PlacesOf(const LiveMemory& live);

// `places` as PlacesOf gives them; a region's end may lie further, as far as its words may be touched.
LiveTables MakeLiveTables(const Layout& layout, const LiveMap& map, std::span<const RegionBounds> places);

}  // namespace xorbit::cuda
