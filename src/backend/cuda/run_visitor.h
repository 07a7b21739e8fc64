// Brings each change of a tile to where it lies in live memory.
//
// Changes ascend and 32 of them mostly lie in one run of live memory, so a warp keeps one run for all its lanes: an element's
// place is then one comparison and one multiplication away. What that does not fit - copies, half bytes apart, runs off their
// alignment or too short - goes the slow way of live_copies.h, by a call for each element.
#pragma once

#include "backend/cuda/live_copies.h"
#include "backend/cuda/tile_decode.h"

namespace xorbit::cuda {

// The run that a warp is in, relative to the first element of its tile; the same in all lanes.
struct WarpRun {
  uint32_t begin = 0;  // offsets in the tile
  uint32_t count = 0;
  uint64_t address = 0;      // of the tile's first element, were it in this run too (modulo 2^64); unused if absent
  uint64_t tensor_byte = 0;  // likewise
  uint64_t tensor_key = 0;
  bool present = false;
  PlaceHint hint{};
};

// count = 0: the run around the element cannot be used by a warp.
template <typename Unit>
XORBIT_DEVICE_RARE WarpRun FindWarpRun(const UpdateOnDevice* update, const SegmentOnDevice* segment, uint64_t first,
                                       uint32_t span, uint32_t offset, PlaceHint hint) {
  const CopyRun run = FindRun(update, segment, first + offset, 0, hint);
  WarpRun result;
  result.hint = run.hint;
  result.present = run.live_address != 0;
  if (result.present && (run.ragged || run.live_address % sizeof(Unit) != 0)) return result;
  result.begin = run.first > first ? static_cast<uint32_t>(run.first - first) : 0;
  const uint64_t end = run.first + run.count - first;
  result.count = (end <= span ? static_cast<uint32_t>(end) : span + 1) - result.begin;
  result.address = run.live_address - (run.first - first) * sizeof(Unit);
  result.tensor_byte = run.tensor_byte - (run.first - first) * sizeof(Unit);
  result.tensor_key = run.tensor_key;
  return result;
}

// Derived takes a change by TakeInRun(index, offset, bits) where the warp's run holds it, else by TakeApart(index, element,
// bits). Settle() comes before each and uses what the changes before have read, if they did.
template <typename Unit, typename Derived>
class RunVisitor {
 public:
  XORBIT_DEVICE explicit RunVisitor(const TileContext& tile) : tile_(tile) { run_.hint.part_index = tile.start.part_index; }

  XORBIT_DEVICE void Visit(bool active, uint32_t change_index, uint32_t offset, Unit bits) {
    constexpr uint32_t kRounds = 3;  // runs tried for 32 changes before the others go apart
    auto* self = static_cast<Derived*>(this);
    bool waiting = active;
#ifdef __CUDACC__
#pragma unroll 1
#endif
    for (uint32_t round = 0; round < kRounds; ++round) {
      self->Settle();
      if (waiting && offset - run_.begin < run_.count) {
        waiting = false;
        if (run_.present) self->TakeInRun(change_index, offset, bits);
      }
      const uint32_t left = Ballot(waiting);
      if (left == 0) return;
      if (tile_.segment->is_plain == 0) break;
      const uint32_t lowest_lane = CountBits((left & (~left + 1)) - 1);
      run_ = FindWarpRun<Unit>(tile_.update, tile_.segment, tile_.record.first, tile_.record.span,
                               ShuffleFrom(offset, lowest_lane), run_.hint);
    }
    if (waiting) self->TakeApart(change_index, tile_.record.first + offset, bits);
  }

 protected:
  XORBIT_DEVICE uint64_t AddressAt(uint32_t offset) const { return run_.address + uint64_t{offset} * sizeof(Unit); }
  XORBIT_DEVICE ElementWeight<Unit> WeightAt(uint32_t offset) const {
    return {run_.tensor_key, run_.tensor_byte + uint64_t{offset} * sizeof(Unit), tile_.word_factors};
  }
  XORBIT_DEVICE const TileContext& tile() const { return tile_; }

 private:
  TileContext tile_;
  WarpRun run_;
};

}  // namespace xorbit::cuda
