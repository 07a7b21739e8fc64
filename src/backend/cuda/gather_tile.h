// One warp puts one tile's changes in order, from where the diff left them, and surveys them as they pass: reading them again
// for that would take as long as putting them there.
#pragma once

#include "backend/cuda/survey_tile.h"

namespace xorbit::cuda {

// Goes through what the diff's lines left, in order, 32 lines at a time; each lane holds one of them. All lanes together.
class OrderedLines {
 public:
  // Begins with the lines that hold change `index`.
  XORBIT_DEVICE OrderedLines(const SendOnDevice& send, uint64_t index) : send_(&send) {
    const uint64_t group = GroupOf(send, index);
    batch_ = group * kBatchesPerGroup;
    first_ = send.group_starts[group];
    ahead_ = Load(batch_);
    Enter();
    while (index >= end()) Advance();
  }
  // To the lines after these, which there are as long as end() is not the end of all changes.
  XORBIT_DEVICE void Advance() {
    first_ = end();
    ++batch_;
    Enter();
  }
  // Changes of these lines are first() to end().
  XORBIT_DEVICE uint64_t end() const { return first_ + ShuffleFrom(end_, kWarpLanes - 1); }

  // Where change `index` of these is in the store; of others, some place. Each lane with its own.
  XORBIT_DEVICE uint64_t PlaceOf(uint64_t index) const {
    const auto at = static_cast<uint32_t>(index - first_);
    uint32_t holder = 0;  // the number of lines that end at or before it
#ifdef __CUDACC__
#pragma unroll
#endif
    for (uint32_t step = kWarpLanes / 2; step > 0; step /= 2) {
      const uint32_t probe = ShuffleFrom(end_, holder + step - 1);
      if (at >= probe) holder += step;
    }
    return ShuffleFrom(origin_, holder) + at;
  }
  // Of a change of these lines.
  XORBIT_DEVICE uint64_t Widen(uint32_t position) const { return PositionIn(*send_, batch_ / kBatchesPerGroup, position); }

 private:
  static constexpr uint32_t kBatchesPerGroup = kStripsPerGroup * kLinesPerStrip / kWarpLanes;

  XORBIT_DEVICE uint64_t Load(uint64_t batch) const {
    const uint64_t line = batch * kWarpLanes + Lane();
    return line < send_->strip_count * kLinesPerStrip ? send_->lines[line] : 0;
  }
  XORBIT_DEVICE void Enter() {
    const uint64_t line = ahead_;
    ahead_ = Load(batch_ + 1);
    end_ = InclusiveSum(CountOfLine(line));
    origin_ = StartOfLine(line) - (end_ - CountOfLine(line));
  }

  const SendOnDevice* send_;
  uint64_t batch_ = 0;
  uint64_t first_ = 0;
  uint64_t ahead_ = 0;   // this lane's of the next lines
  uint32_t end_ = 0;     // changes of this lane's line and those before it
  uint64_t origin_ = 0;  // modulo 2^64; plus an index: the place in the store
};

// Changes [at, end) of these lines: four times 32 at once, because one load after the other would wait for memory each time.
template <typename Unit>
XORBIT_DEVICE void GatherLines(const SendOnDevice& send, const OrderedLines& lines, uint64_t at, uint64_t end,
                               TileSurveyor<Unit>* surveyor) {
  constexpr uint32_t kAtOnce = 4;
  for (; at < end; at += kAtOnce * kWarpLanes) {
    StoredChange<Unit> loaded[kAtOnce] = {};
#ifdef __CUDACC__
#pragma unroll
#endif
    for (uint32_t j = 0; j < kAtOnce; ++j) {
      if (at + j * kWarpLanes >= end) continue;
      const uint64_t index = at + j * kWarpLanes + Lane();
      const uint64_t place = lines.PlaceOf(index);
      if (index < end) loaded[j] = LoadChange<Unit>(send.stored, place);
    }
#ifdef __CUDACC__
#pragma unroll
#endif
    for (uint32_t j = 0; j < kAtOnce; ++j) {
      if (at + j * kWarpLanes >= end) continue;
      const uint64_t index = at + j * kWarpLanes + Lane();
      if (index < end) StoreChange(send.changes, index, loaded[j]);
      const uint64_t left = end - (at + j * kWarpLanes);
      surveyor->Take(loaded[j].change(), left < kWarpLanes ? static_cast<uint32_t>(left) : kWarpLanes);
    }
  }
}

// A tile that was cut without looking at windows. All lanes together.
template <typename Unit>
XORBIT_DEVICE void GatherTile(const SendOnDevice& send, uint64_t tile_index, const SymbolCounts& counts,
                              const uint64_t* word_factors) {
  SendTile tile = TileAt(send, tile_index);
  tile.flags &= kTileFollows;  // none is dense: so says the compiler, too, then
  const uint64_t end = tile.first_change + tile.change_count;
  uint64_t at = tile.first_change;
  const bool follows = tile.flags != 0;
  OrderedLines lines(send, follows ? at - 1 : at);
  const auto position_of = [&](uint64_t index) {
    return lines.Widen(LoadChange<Unit>(send.stored, lines.PlaceOf(index)).position());
  };
  const uint64_t previous = follows ? position_of(at - 1) : 0;
  while (at >= lines.end()) lines.Advance();
  const uint64_t first = position_of(at);
  TileSurveyor<Unit> surveyor(send, tile, first, previous, counts, word_factors);
  for (;;) {
    const uint64_t lines_end = lines.end() < end ? lines.end() : end;
    GatherLines(send, lines, at, lines_end, &surveyor);
    at = lines_end;
    if (at == end) break;
    lines.Advance();
  }
  const uint64_t last = lines.Widen(surveyor.last_position());
  surveyor.Finish(tile_index, last / kWindowElements - first / kWindowElements >= kMaxTileWindows);
}

}  // namespace xorbit::cuda
