// One warp looks through one tile's changes, as PlanTiles cuts them, before anything is coded: counts symbols, of which the
// tables are made, and sums the digest before and after.
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

// Whether PlanTiles would have cut a tile that was cut without looking at windows. All lanes together.
template <typename Unit>
XORBIT_DEVICE bool IsTooLong(const SendOnDevice& send, const SendTile& tile, uint64_t first) {
  if (send.tiles != nullptr) return false;
  const uint64_t last = PositionOf<Unit>(send, tile.first_change + tile.change_count - 1);
  return last / kWindowElements - first / kWindowElements >= kMaxTileWindows;
}

// All lanes together.
template <typename Unit>
XORBIT_DEVICE void SurveyTile(const SendOnDevice& send, uint64_t tile_index, const SymbolCounts& counts,
                              const uint64_t* word_factors) {
  const SendTile tile = TileAt(send, tile_index);
  const TileChangesOnDevice<Unit> changes = ChangesOf<Unit>(send, tile);
  const bool dense = (tile.flags & kTileDense) != 0;
  const uint64_t first = PositionOf<Unit>(send, tile.first_change);
  const bool follows = (tile.flags & kTileFollows) != 0;
  const uint64_t previous = follows ? PositionOf<Unit>(send, tile.first_change - 1) : 0;
  const auto first_position = static_cast<uint32_t>(first);
  auto last_position = static_cast<uint32_t>(previous);  // of the group before
  const uint32_t planes = dense ? 1 + sizeof(Unit) : 1;
  TileSpans<Unit> spans(send, first);
  SurveySums sums;
  StoredChange<Unit> next = changes.Load(Lane());
  for (uint32_t base = 0; base < changes.count; base += kWarpLanes) {
    // The next group is loaded before this one is worked on: a warp alone cannot hide what memory takes.
    const Change<Unit> change = next.change();
    next = changes.Load(base + kWarpLanes + Lane());
    const uint32_t below = ShuffleUp(change.position, 1);
    const uint32_t gap = change.position - (Lane() == 0 ? last_position : below) - 1;
    last_position = ShuffleFrom(change.position, kWarpLanes - 1);
    if (base + Lane() >= changes.count) continue;
    if (!dense) {
      counts.Count(0, GapSymbolOf(gap));
      sums.varint_bytes += VarintBytesOf(gap);
    }
#ifdef __CUDACC__
#pragma unroll
#endif
    for (uint32_t plane = 0; plane < sizeof(Unit); ++plane) {
      counts.Count(planes + plane, static_cast<uint32_t>(change.bits >> (8 * plane)) & 0xff);
    }
    const uint32_t distance = change.position - first_position;
    spans.Seek(distance);
    WeighChange(change, spans.tensor_key(), spans.ByteOf(distance), word_factors, &sums);
  }
  const uint32_t span = changes.span();
  TileSurvey survey{first, WarpSum(sums.before), WarpSum(sums.after), span, static_cast<uint32_t>(WarpSum(sums.varint_bytes))};
  const uint64_t lane1_change = WarpSum(sums.lane1_change);
  const bool too_long = IsTooLong<Unit>(send, tile, first);
  if (Lane() != 0) return;
  if (too_long) AtomicAdd(&send.counters->has_long_tile, uint64_t{1});
  if (dense) {
    // The elements between a dense tile's changes; of a part of a window nobody reads the counts.
    for (uint32_t plane = 0; plane < sizeof(Unit); ++plane) counts.Add(planes + plane, 0, span + 1 - changes.count);
  } else {
    // The first change's gap is not coded, but counts where the tile follows another.
    const uint32_t first_gap = first_position - static_cast<uint32_t>(previous) - 1;
    survey.varint_bytes -= VarintBytesOf(first_gap);
    if (!follows || first - previous - 1 > UINT32_MAX) counts.Add(0, GapSymbolOf(first_gap), ~uint32_t{0});
  }
  StoreSurvey<Unit>(send, tile_index, tile, survey, lane1_change);
}

}  // namespace xorbit::cuda
