// One warp looks through one tile's changes before anything is coded: counts symbols, of which the tables are made, and sums
// the digest before and after.
#pragma once

#include "backend/cuda/fast_memory.h"
#include "backend/cuda/live_place.h"
#include "backend/cuda/ordered_changes.h"

namespace xorbit::cuda {

// One lane's own: in which tensor changes lie, by their distance from the tile's first element.
template <typename Unit>
class TileSpans {
 public:
  XORBIT_DEVICE TileSpans(const SendOnDevice& send, uint64_t first)
      : spans_(send.spans), span_count_(send.span_count), first_(first) {}
  // Of changes that ascend most are where the one before was.
  XORBIT_DEVICE void Seek(uint32_t distance) {
    if (distance - begin_ < size_) return;
    const uint64_t element = first_ + distance;
    uint64_t low = index_ + 1;
    if (low >= span_count_ || element < spans_[low].first || element >= spans_[low + 1].first) {
      low = 0;
      for (uint64_t high = span_count_; high - low > 1;) {
        const uint64_t middle = low + (high - low) / 2;
        (spans_[middle].first <= element ? low : high) = middle;
      }
    }
    index_ = low;
    const TensorSpan span = spans_[low];
    begin_ = span.first > first_ ? static_cast<uint32_t>(span.first - first_) : 0;
    const uint64_t size = spans_[low + 1].first - (first_ + begin_);
    size_ = size < UINT32_MAX ? static_cast<uint32_t>(size) : UINT32_MAX;
    tensor_key_ = span.tensor_key;
    first_byte_ = span.tensor_byte - (span.first - first_) * sizeof(Unit);
  }
  XORBIT_DEVICE uint64_t tensor_key() const { return tensor_key_; }
  XORBIT_DEVICE uint64_t ByteOf(uint32_t distance) const { return first_byte_ + uint64_t{distance} * sizeof(Unit); }

 private:
  const TensorSpan* spans_;
  uint64_t span_count_;
  uint64_t first_;
  uint64_t index_ = ~uint64_t{0};
  uint32_t begin_ = 0;  // distances in this span
  uint32_t size_ = 0;
  uint64_t tensor_key_ = 0;
  uint64_t first_byte_ = 0;  // where the tile's first element would lie in its tensor, modulo 2^64
};

// A block's counts in fast memory, in the order of SendHistograms.
class SymbolCounts {
 public:
  XORBIT_DEVICE explicit SymbolCounts(uint32_t* counts) : counts_(counts), fast_(counts) {}
  XORBIT_DEVICE void Count(uint32_t table, uint32_t symbol) const { fast_.Count(4 * (table * kValueSymbols + symbol)); }
  XORBIT_DEVICE void Add(uint32_t table, uint32_t symbol, uint32_t count) const {
    AtomicAdd(&counts_[table * kValueSymbols + symbol], count);
  }

 private:
  uint32_t* counts_;
  FastMemory fast_;
};

// One lane's sums over its changes.
struct SurveySums {
  uint64_t before = 0;
  uint64_t after = 0;
  uint64_t lane1_change = 0;
  uint32_t varint_bytes = 0;
};

// Adds what a change counts in the digest, old and new. `at`: byte of its tensor; see WordFactorAt for word_factors.
template <typename Unit>
XORBIT_DEVICE void WeighChange(const Change<Unit>& change, uint64_t tensor_key, uint64_t at, const uint64_t* word_factors,
                               SurveySums* sums) {
  const BlockFactors block = BlockFactorsOf(tensor_key, at / kDigestBlockBytes);
  const uint64_t* factors = word_factors + at / 4 % kDigestWordsPerBlock;
  const auto target = static_cast<Unit>(change.old ^ change.bits);
  const auto shift = static_cast<uint32_t>(at % 4 * 8);  // 0 for units of a word and more
  for (uint32_t w = 0; w < (sizeof(Unit) + 3) / 4; ++w) {
    const auto old_word = static_cast<uint32_t>(uint64_t{change.old} >> (32 * w)) << shift;
    const auto new_word = static_cast<uint32_t>(uint64_t{target} >> (32 * w)) << shift;
    const uint64_t weight = block.lane0 * factors[w];
    sums->before += weight * old_word;
    sums->after += weight * new_word;
    sums->lane1_change += block.lane1 * factors[w + kDigestWordsPerBlock] * (uint64_t{new_word} - old_word);
  }
}

// Adds a tile's survey to the totals and stores it; one lane.
template <typename Unit>
XORBIT_DEVICE void StoreSurvey(const SendOnDevice& send, uint64_t tile_index, const SendTile& tile, const TileSurvey& survey,
                               uint64_t lane1_change) {
  send.surveys[tile_index] = survey;
  SendCounters* const counters = send.counters;
  AtomicAdd(&counters->lane0_change, survey.after - survey.before);
  AtomicAdd(&counters->lane1_change, lane1_change);
  if (survey.before == survey.after && tile.change_count > 1) AtomicAdd(&counters->unsplit_count, uint64_t{1});
}

// What one warp finds out about a tile whose changes it is handed in order.
template <typename Unit>
class TileSurveyor {
 public:
  // `first`: the tile's first element; `previous`: where the change before it is, if it follows one.
  XORBIT_DEVICE TileSurveyor(const SendOnDevice& send, const SendTile& tile, uint64_t first, uint64_t previous,
                             const SymbolCounts& counts, const uint64_t* word_factors)
      : send_(&send),
        tile_(tile),
        counts_(counts),
        word_factors_(word_factors),
        spans_(send, first),
        first_(first),
        previous_(previous),
        last_position_(static_cast<uint32_t>(previous)) {}

  // The next `count` changes, 32 at most, of as many lanes. All lanes together.
  XORBIT_DEVICE void Take(const Change<Unit>& change, uint32_t count) {
    const uint32_t below = ShuffleUp(change.position, 1);
    const uint32_t gap = change.position - (Lane() == 0 ? last_position_ : below) - 1;
    last_position_ = ShuffleFrom(change.position, count - 1);
    if (Lane() >= count) return;
    if (!is_dense()) {
      counts_.Count(0, GapSymbolOf(gap));
      sums_.varint_bytes += VarintBytesOf(gap);
    }
    const uint32_t planes = is_dense() ? 1 + sizeof(Unit) : 1;
#ifdef __CUDACC__
#pragma unroll
#endif
    for (uint32_t plane = 0; plane < sizeof(Unit); ++plane) {
      counts_.Count(planes + plane, static_cast<uint32_t>(change.bits >> (8 * plane)) & 0xff);
    }
    const uint32_t distance = change.position - static_cast<uint32_t>(first_);
    spans_.Seek(distance);
    WeighChange(change, spans_.tensor_key(), spans_.ByteOf(distance), word_factors_, &sums_);
  }
  // Of the last change so far.
  XORBIT_DEVICE uint32_t last_position() const { return last_position_; }

  // Once, after the last. `too_long`: PlanTiles would have cut the tile. All lanes together.
  XORBIT_DEVICE void Finish(uint64_t tile_index, bool too_long) {
    const uint32_t span = last_position_ - static_cast<uint32_t>(first_);
    TileSurvey survey{first_, WarpSum(sums_.before), WarpSum(sums_.after), span,
                      static_cast<uint32_t>(WarpSum(sums_.varint_bytes))};
    const uint64_t lane1_change = WarpSum(sums_.lane1_change);
    if (Lane() != 0) return;
    if (too_long) AtomicAdd(&send_->counters->has_long_tile, uint64_t{1});
    if (is_dense()) {
      // The elements between a dense tile's changes; of a part of a window nobody reads the counts.
      for (uint32_t plane = 0; plane < sizeof(Unit); ++plane) {
        counts_.Add(1 + sizeof(Unit) + plane, 0, span + 1 - tile_.change_count);
      }
    } else {
      // The first change's gap is not coded, but counts where the tile follows another.
      const uint32_t first_gap = static_cast<uint32_t>(first_) - static_cast<uint32_t>(previous_) - 1;
      survey.varint_bytes -= VarintBytesOf(first_gap);
      if (!follows() || first_ - previous_ - 1 > UINT32_MAX) counts_.Add(0, GapSymbolOf(first_gap), ~uint32_t{0});
    }
    StoreSurvey<Unit>(*send_, tile_index, tile_, survey, lane1_change);
  }

 private:
  XORBIT_DEVICE bool is_dense() const { return (tile_.flags & kTileDense) != 0; }
  XORBIT_DEVICE bool follows() const { return (tile_.flags & kTileFollows) != 0; }

  const SendOnDevice* send_;
  SendTile tile_;
  SymbolCounts counts_;
  const uint64_t* word_factors_;
  TileSpans<Unit> spans_;
  SurveySums sums_;
  uint64_t first_;
  uint64_t previous_;
  uint32_t last_position_;
};

// A planned tile, of changes that are in order already. All lanes together.
template <typename Unit>
XORBIT_DEVICE void SurveyTile(const SendOnDevice& send, uint64_t tile_index, const SymbolCounts& counts,
                              const uint64_t* word_factors) {
  const SendTile tile = TileAt(send, tile_index);
  const TileChangesOnDevice<Unit> changes = ChangesOf<Unit>(send, tile);
  const uint64_t first = PositionOf<Unit>(send, tile.first_change);
  const uint64_t previous = (tile.flags & kTileFollows) != 0 ? PositionOf<Unit>(send, tile.first_change - 1) : 0;
  TileSurveyor<Unit> surveyor(send, tile, first, previous, counts, word_factors);
  StoredChange<Unit> next = changes.Load(Lane());
  for (uint32_t base = 0; base < changes.count; base += kWarpLanes) {
    // The next group is loaded before this one is worked on: a warp alone cannot hide what memory takes.
    const Change<Unit> change = next.change();
    next = changes.Load(base + kWarpLanes + Lane());
    const uint32_t left = changes.count - base;
    surveyor.Take(change, left < kWarpLanes ? left : kWarpLanes);
  }
  surveyor.Finish(tile_index, false);
}

}  // namespace xorbit::cuda
