// The model of `xorbit bench --ranks`: a mixture of experts in BF16, by formula, as sampler ranks cut it (attention by rows and
// columns, whole experts, norms on all of them) and as trainer ranks own it. Pure planning.
#pragma once

#include <cstdint>
#include <vector>

#include "backend/cuda/testing/formula_memory.h"
#include "publish/ownership_plan.h"
#include "tensor/live_map.h"

namespace xorbit {

struct RanksModel {
  Layout layout;
  ChangeFormula formula;
  std::vector<uint64_t> first_bytes;  // of each tensor, in the formula

  uint64_t byte_count() const { return layout.total_bytes(); }
  uint64_t change_count() const;  // about
};

// About `byte_count` bytes, of whose elements `percent` change from an even version to an odd one, and back.
Result<RanksModel> MakeRanksModel(uint64_t byte_count, double percent);

// What sampler rank `rank` of `rank_count` holds.
Result<LiveMap> SamplerMap(const RanksModel& model, uint32_t rank, uint32_t rank_count);
// Where a map's regions lie in one memory.
struct RegionPlaces {
  std::vector<uint64_t> offsets;
  uint64_t byte_count = 0;
};
RegionPlaces PlaceRegions(const LiveMap& map);
std::vector<FormulaPiece> PiecesOf(const RanksModel& model, const LiveMap& map, const RegionPlaces& places);

// What trainer rank `rank` of `rank_count` owns, one segment; all of them together own everything once. kUsage if the matrices
// cannot be cut so.
Result<RankPlan> TrainerPlan(const RanksModel& model, uint32_t rank, uint32_t rank_count);
// A segment's elements end to end.
std::vector<FormulaPiece> PiecesOf(const RanksModel& model, const SegmentMap& map);

}  // namespace xorbit
