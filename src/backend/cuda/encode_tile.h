// One warp codes one tile: values, gaps and raw gap bits from the last change to the first, the mode by exact sizes.
//
// The coded form goes to the tile's scratch, because where the tile begins is known only when all before it have a size:
// pack_tile.h then writes the tile.
#pragma once

#include "backend/cuda/backward_bits.h"
#include "backend/cuda/element_groups.h"
#include "backend/cuda/fast_memory.h"
#include "backend/cuda/ordered_changes.h"

namespace xorbit::cuda {

// Fast memory of one warp.
struct EncodeWarpMemory {
  uint64_t values[kWarpLanes];  // of ElementGroups
  uint32_t bits[kWarpLanes];    // of BackwardBits
};

// x / frequency for x below frequency << 20.
XORBIT_DEVICE uint32_t DivideByFrequency(uint32_t x, uint32_t packed, uint32_t reciprocal) {
  const uint32_t high = MultiplyHigh(x + (packed >> kAddendAt & 1), reciprocal);
  return FunnelShift(high, 0, packed >> kShiftAt & 31);
}

// Codes rows of symbols backwards; words go in front of those that are there.
class LaneCoder {
 public:
  // `tables`: in fast memory.
  XORBIT_DEVICE LaneCoder(const SendTable* tables, uint16_t* words_end)
      : tables_(tables), lanes_below_(Keep(LanesBelow())), words_end_(words_end) {}
  // kNoSymbol where a lane has none. All lanes together.
  XORBIT_DEVICE void Encode(uint32_t table, uint32_t symbol) {
    const auto entry = tables_.LoadPair(table * static_cast<uint32_t>(sizeof(SendTable)) +
                                        symbol * static_cast<uint32_t>(sizeof(SendTable::Entry)));
    const uint32_t complement = entry.x & (kFrequencySum - 1);
    const bool emit = (state_ >> (32 - kFrequencyBits)) + complement >= kFrequencySum;
    const uint32_t votes = Ballot(emit);
    word_count_ += CountBits(votes);
    uint16_t* const place =
        words_end_ + (static_cast<int32_t>(CountBits(votes & lanes_below_)) - static_cast<int32_t>(word_count_));
    if (emit) *place = static_cast<uint16_t>(state_);
    state_ = emit ? state_ >> 16 : state_;
    state_ += DivideByFrequency(state_, entry.x, entry.y) * complement + (entry.x >> kCumulativeAt);
  }
  XORBIT_DEVICE uint32_t state() const { return state_; }
  XORBIT_DEVICE uint32_t word_count() const { return word_count_; }

 private:
  FastMemory tables_;
  uint32_t lanes_below_;
  uint32_t state_ = kStateFloor;
  uint32_t word_count_ = 0;
  uint16_t* words_end_;
};

// The ends of a tile's parts of the scratch, which are filled downwards.
struct TileScratch {
  uint32_t* bits_end;
  uint16_t* words_end;
};
template <typename Unit>
XORBIT_DEVICE TileScratch ScratchOf(const SendOnDevice& send, const SendTile& tile) {
  constexpr uint64_t kEach = ScratchBytesPerChange(sizeof(Unit));
  const uint64_t begin = (tile.first_change - tile.earlier_count) * kEach;
  uint8_t* const scratch = send.scratch + (begin + 3) / 4 * 4;
  if ((tile.flags & kTileDense) == 0) {
    const uint64_t end = (begin + tile.change_count * kEach) / 4 * 4;
    return {reinterpret_cast<uint32_t*>(scratch + kBitBytesPerChange * tile.change_count),
            reinterpret_cast<uint16_t*>(send.scratch + end)};
  }
  // What a window was cut into shares its place by elements: half a tile may have more of them for each change than the whole.
  const SendTile window{tile.first_change - tile.earlier_count, tile.earlier_count + tile.change_count, tile.flags, 0};
  return {nullptr, reinterpret_cast<uint16_t*>(scratch) + sizeof(Unit) * (uint64_t{ChangesOf<Unit>(send, window).span()} + 1)};
}

// A group's value planes that have a table, the highest first.
template <typename Unit>
XORBIT_DEVICE void EncodeValues(const int8_t* planes, bool active, Unit value, LaneCoder* coder) {
#ifdef __CUDACC__
#pragma unroll
#endif
  for (uint32_t plane = sizeof(Unit); plane-- > 0;) {
    if (planes[plane] < 0) continue;
    const uint32_t symbol = static_cast<uint32_t>(value >> (8 * plane)) & 0xff;
    coder->Encode(static_cast<uint32_t>(planes[plane]), active ? symbol : kNoSymbol);
  }
}

template <typename Unit>
XORBIT_DEVICE void EncodeSparse(const SendTables& set, const TileChangesOnDevice<Unit>& changes, LaneCoder* coder,
                                BackwardBits* bits) {
  // Two groups are loaded ahead, because a gap at a group's begin reaches into the one below.
  uint32_t base = (changes.count - 1) / kWarpLanes * kWarpLanes;
  StoredChange<Unit> stored = changes.Load(base + Lane());
  StoredChange<Unit> below{};
  if (base > 0) below = changes.Load(base - kWarpLanes + Lane());
  for (;; base -= kWarpLanes) {
    StoredChange<Unit> next{};
    if (base > kWarpLanes) next = changes.Load(base - 2 * kWarpLanes + Lane());
    const Change<Unit> change = stored.change();
    const uint32_t index = base + Lane();
    const bool active = index < changes.count;
    const bool has_gap = active && index > 0;
    const uint32_t neighbour = ShuffleUp(change.position, 1);
    const uint32_t before_group = ShuffleFrom(below.position(), kWarpLanes - 1);
    const uint32_t gap = has_gap ? change.position - (Lane() == 0 ? before_group : neighbour) - 1 : 0;
    const uint32_t symbol = GapSymbolOf(gap);
    EncodeValues<Unit>(set.planes.data(), active, change.bits, coder);
    if (set.gaps >= 0) coder->Encode(static_cast<uint32_t>(set.gaps), has_gap ? symbol : kNoSymbol);
    const uint32_t bit_count = GapBitCountOf(symbol);
    bits->Put(gap & ((1U << bit_count) - 1), bit_count);
    if (base == 0) return;
    stored = below;
    below = next;
  }
}

template <typename Unit>
XORBIT_DEVICE void EncodeDense(const SendTables& set, const TileChangesOnDevice<Unit>& changes, uint32_t element_count,
                               EncodeWarpMemory* memory, LaneCoder* coder) {
  ElementGroups<Unit> groups(changes, memory->values);
  for (uint32_t base = (element_count - 1) / kWarpLanes * kWarpLanes;; base -= kWarpLanes) {
    EncodeValues<Unit>(set.dense_planes.data(), base + Lane() < element_count, groups.Load(base), coder);
    if (base == 0) return;
  }
}

XORBIT_DEVICE uint64_t PaddedBytes(uint64_t bytes) { return (bytes + kTileAlignment - 1) / kTileAlignment * kTileAlignment; }

XORBIT_DEVICE uint32_t RawPlaneCount(const int8_t* planes, uint32_t unit_bytes) {
  uint32_t count = 0;
  for (uint32_t plane = 0; plane < unit_bytes; ++plane) count += planes[plane] == kNoTable ? 1 : 0;
  return count;
}

// How a tile is written, and what the coded form saves over the others.
struct TileChoice {
  TileMode mode;
  uint64_t byte_count;
  uint64_t saved_bytes;
};

XORBIT_DEVICE TileChoice ChooseUncoded(const TileSurvey& survey, uint32_t change_count, bool dense, uint32_t unit_bytes) {
  const uint64_t raw_bytes = PaddedBytes((uint64_t{survey.span} + 1) * unit_bytes);
  const uint64_t plain_bytes = dense ? ~uint64_t{0} : PaddedBytes(uint64_t{change_count} * unit_bytes + survey.varint_bytes);
  if (raw_bytes <= plain_bytes) return {TileMode::kRaw, raw_bytes, 0};
  return {TileMode::kPlain, plain_bytes, 0};
}

// Adds a tile to the totals; one lane.
XORBIT_DEVICE void CountEncoded(SendCounters* counters, const TileChoice& choice) {
  if (choice.mode == TileMode::kSparse) {
    AtomicAdd(&counters->sparse_count, uint64_t{1});
    AtomicAdd(&counters->sparse_saved_bytes, choice.saved_bytes);
  } else if (choice.mode == TileMode::kDense) {
    AtomicAdd(&counters->dense_count, uint64_t{1});
    AtomicAdd(&counters->dense_saved_bytes, choice.saved_bytes);
  }
}

// `tables` are the segment's in fast memory. Leaves a record without its offset.
template <typename Unit>
XORBIT_DEVICE void EncodeTile(const SendOnDevice& send, uint64_t tile_index, const SendTable* tables,
                              EncodeWarpMemory* memory) {
  const SendTile tile = TileAt(send, tile_index);
  const TileSurvey survey = send.surveys[tile_index];
  const TileChangesOnDevice<Unit> changes = ChangesOf<Unit>(send, tile);
  const bool dense = (tile.flags & kTileDense) != 0;
  TileChoice choice = ChooseUncoded(survey, changes.count, dense, sizeof(Unit));
  const TileScratch scratch = ScratchOf<Unit>(send, tile);
  LaneCoder coder(tables, scratch.words_end);
  uint32_t bit_count = 0;
  if ((dense ? send.tables.has_dense : send.tables.has_sparse) != 0) {
    const uint32_t element_count = dense ? survey.span + 1 : changes.count;
    if (dense) {
      EncodeDense<Unit>(send.tables, changes, element_count, memory, &coder);
    } else {
      BackwardBits bits(scratch.bits_end, memory->bits);
      EncodeSparse<Unit>(send.tables, changes, &coder, &bits);
      bit_count = bits.Finish();
    }
    const int8_t* planes = dense ? send.tables.dense_planes.data() : send.tables.planes.data();
    const uint64_t plane_bytes = uint64_t{RawPlaneCount(planes, sizeof(Unit))} * element_count;
    const uint64_t coded_bytes = 4 * (element_count < kLanes ? element_count : kLanes) + PaddedBytes(plane_bytes) +
                                 PaddedBytes(2 * uint64_t{coder.word_count()}) + uint64_t{(bit_count + 31) / 32} * 4;
    if (coded_bytes <= choice.byte_count) {
      choice = {dense ? TileMode::kDense : TileMode::kSparse, coded_bytes, choice.byte_count - coded_bytes};
    }
  }
  TileCode& code = send.codes[tile_index];
  code.states[Lane()] = coder.state();
  if (Lane() != 0) return;
  code.byte_count = static_cast<uint32_t>(choice.byte_count);
  code.word_count = coder.word_count();
  code.bit_count = bit_count;
  send.records[tile_index] = {survey.first,
                              0,
                              survey.before,
                              survey.after,
                              survey.span,
                              static_cast<uint16_t>(changes.count - 1),
                              static_cast<uint8_t>(choice.mode),
                              0};
  CountEncoded(send.counters, choice);
}

}  // namespace xorbit::cuda
