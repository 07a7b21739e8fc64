// Everything about an update that is known before its bytes are decoded, as the tables that kernels read. Pure: host memory in,
// host memory out; staged_update.h copies it to a device.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "backend/cuda/live_tables.h"
#include "backend/cuda/update_on_device.h"
#include "codec/sparse_table_set.h"
#include "payload/payload_reader.h"
#include "tensor/layout.h"

namespace xorbit::cuda {

// One segment of one payload.
struct SegmentPlan {
  const PayloadSegment* segment = nullptr;
  uint32_t payload_index = 0;
  std::vector<SymbolTable> tables;
  std::vector<LivePart> parts;  // with the sentinel
  std::vector<TileStart> starts;
  std::vector<LiveBox> boxes;
  SegmentOnDevice device{};  // all but the pointers
};

// Consecutive tiles of one of the plan's segments.
struct TileRange {
  uint64_t segment_index;
  uint64_t begin;  // record
  uint64_t end;
};

struct UpdatePlan {
  const Layout* layout = nullptr;
  const LiveMap* map = nullptr;
  LiveTables live;
  std::vector<SegmentPlan> segments;  // those with tiles
  std::vector<Digit> digits;
  std::vector<TieOnDevice> ties;         // one for every name of a tensor that has several; sums are zero
  std::vector<uint32_t> tie_of;          // by tensor: index into ties or kNotTied; empty if nothing is tied
  std::vector<TileRange> checked_tiles;  // that touch shadows or tied names
  std::vector<TileRange> cast_tiles;     // of these, those whose shadows apply has to write
  uint64_t tile_count = 0;
  uint64_t item_count = 0;
  uint64_t change_count = 0;
  uint32_t table_bytes = 0;
  uint64_t bitmap_bytes = 0;       // of all tiles' forms: none but by PlanBitmaps
  uint64_t bitmap_tile_count = 0;  // tiles with one
};

// What the payloads' tiles are.
enum class TileSource {
  kSparse,  // the sparse codec's, which nobody has checked
  kMasks,   // stretches of masks (mask/mask_plan.h), made by ourselves: without tables and bodies
};

// Plans all payloads as one update of live memory; `places` are those of PlacesOf: where each region and kept copy begins and
// how far its words may be touched. Payloads, layout and map must outlive the plan. kCorrupt where the sparse codec's Open says
// so.
Result<UpdatePlan> PlanUpdate(const Layout& layout, std::span<const PayloadView> payloads, const LiveMap& map,
                              std::span<const RegionBounds> places, TileSource source = TileSource::kSparse);

// Items [begin, end) of an update, for one launch.
ItemRange ItemsOf(const UpdatePlan& plan, uint64_t begin, uint64_t end);

}  // namespace xorbit::cuda
