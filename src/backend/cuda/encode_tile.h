// One warp codes one tile: digests and raw gap bits on the way forward, rANS on the way back, the mode by exact sizes.
//
// The coded form goes to the tile's scratch, because where the tile begins is known only when all before it have a size:
// pack_tile.h then writes the tile.
#pragma once

#include "backend/cuda/element_groups.h"
#include "backend/cuda/live_place.h"
#include "backend/cuda/ordered_changes.h"

namespace xorbit::cuda {

// Fast memory of one warp.
struct EncodeWarpMemory {
  uint64_t values[kWarpLanes];  // of ElementGroups
  uint32_t bits[kWarpLanes];    // raw gap bits of a group: at most 31 + 32 * 29, less than 1024
};

// One lane's own: where its changes lie in tensors.
class SpanFinder {
 public:
  XORBIT_DEVICE explicit SpanFinder(const SendOnDevice& send) : spans_(send.spans), span_count_(send.span_count) {}
  // Any element of the segment; finding ones that ascend is fast.
  XORBIT_DEVICE void Seek(uint64_t element) {
    if (element - span_.first < count_) return;
    uint64_t low = index_ + 1;
    if (low >= span_count_ || element < spans_[low].first || element >= spans_[low + 1].first) {
      low = 0;
      for (uint64_t high = span_count_; high - low > 1;) {
        const uint64_t middle = low + (high - low) / 2;
        (spans_[middle].first <= element ? low : high) = middle;
      }
    }
    index_ = low;
    span_ = spans_[low];
    count_ = spans_[low + 1].first - span_.first;
  }
  template <typename Unit>
  XORBIT_DEVICE ElementWeight<Unit> WeightOf(uint64_t element, const uint64_t* word_factors) const {
    return {span_.tensor_key, span_.tensor_byte + (element - span_.first) * sizeof(Unit), word_factors};
  }

 private:
  const TensorSpan* spans_;
  uint64_t span_count_;
  uint64_t index_ = 0;
  TensorSpan span_{};
  uint64_t count_ = 0;
};

// Appends each lane's bits, lanes ascending, to a tile's stream of 32-bit words.
class BitStream {
 public:
  XORBIT_DEVICE BitStream(uint32_t* words, uint32_t* buffer) : words_(words), buffer_(buffer) { buffer_[Lane()] = 0; }

  // All lanes together; at most 29 bits each.
  XORBIT_DEVICE void Put(uint32_t bits, uint32_t bit_count) {
    const uint32_t end = InclusiveSum(bit_count) + waiting_count_;
    const uint32_t begin = end - bit_count;
    SyncWarp();
    if (bit_count > 0) {
      AtomicOr(&buffer_[begin / 32], bits << (begin % 32));
      if (begin / 32 != (end - 1) / 32) AtomicOr(&buffer_[begin / 32 + 1], bits >> (32 - begin % 32));
    }
    SyncWarp();
    const uint32_t total = ShuffleFrom(end, kWarpLanes - 1);
    const uint32_t whole = total / 32;
    const uint32_t own = buffer_[Lane()];
    if (Lane() < whole) words_[word_count_ + Lane()] = own;
    const uint32_t rest = ShuffleFrom(own, whole % kWarpLanes);
    SyncWarp();
    buffer_[Lane()] = Lane() == 0 ? rest : 0;
    word_count_ += whole;
    waiting_count_ = total % 32;
  }
  // Fills up the last word and returns the number of words.
  XORBIT_DEVICE uint32_t Finish() {
    if (waiting_count_ == 0) return word_count_;
    SyncWarp();
    if (Lane() == 0) words_[word_count_] = buffer_[0];
    return word_count_ + 1;
  }

 private:
  uint32_t* words_;
  uint32_t* buffer_;
  uint32_t word_count_ = 0;
  uint32_t waiting_count_ = 0;  // bits in the buffer's first word
};

// Codes rows of symbols backwards; words go in front of those that are there.
class LaneCoder {
 public:
  XORBIT_DEVICE explicit LaneCoder(uint16_t* words_end) : words_(words_end) {}
  XORBIT_DEVICE void Encode(const EncodeTable& table, bool active, uint32_t symbol) {
    const uint32_t packed = active ? table.packed[symbol] : kFrequencySum;
    const uint64_t inverse = active ? table.inverse[symbol] : 0;
    const uint32_t frequency = packed & 0xffff;
    const bool emit = active && state_ >= uint64_t{frequency} << (32 - kFrequencyBits);
    const uint32_t votes = Ballot(emit);
    words_ -= CountBits(votes);
    if (emit) {
      words_[CountBits(votes & LanesBelow())] = static_cast<uint16_t>(state_);
      state_ >>= 16;
    }
    if (!active) return;
    const auto quotient = static_cast<uint32_t>(state_ * inverse >> kInverseShift);
    state_ += quotient * (kFrequencySum - frequency) + (packed >> 16);
  }
  XORBIT_DEVICE uint32_t state() const { return state_; }
  XORBIT_DEVICE const uint16_t* words() const { return words_; }

 private:
  uint32_t state_ = kStateFloor;
  uint16_t* words_;
};

// A tile's part of the scratch: raw bits at its front, words at its end.
struct TileScratch {
  uint32_t* bits;
  uint16_t* words_end;
};
XORBIT_DEVICE TileScratch ScratchOf(const SendOnDevice& send, const SendTile& tile) {
  const uint64_t each = ScratchBytesPerChange(send.unit_bytes);
  const uint64_t begin = tile.first_change * each;
  const uint64_t end = begin + tile.change_count * each;
  return {reinterpret_cast<uint32_t*>(send.scratch + (begin + 3) / 4 * 4),
          reinterpret_cast<uint16_t*>(send.scratch + end / 4 * 4)};
}

XORBIT_DEVICE uint32_t VarintBytesOf(uint32_t value) {
  return 1 + (value >= 1U << 7 ? 1 : 0) + (value >= 1U << 14 ? 1 : 0) + (value >= 1U << 21 ? 1 : 0) +
         (value >= 1U << 28 ? 1 : 0);
}

// What the way forward finds.
struct TileSurvey {
  uint64_t before = 0;
  uint64_t after = 0;
  uint64_t lane1_change = 0;
  uint32_t varint_bytes = 0;
  uint32_t bit_words = 0;
};

template <typename Unit>
XORBIT_DEVICE TileSurvey Survey(const SendOnDevice& send, const TileChangesOnDevice<Unit>& changes, uint64_t first, bool dense,
                                uint32_t* bits, const uint64_t* word_factors, EncodeWarpMemory* memory) {
  TileSurvey survey;
  BitStream stream(bits, memory->bits);
  SpanFinder spans(send);
  ChangeInLane<Unit> next = LoadChange(changes, Lane(), false);
  for (uint32_t base = 0; base < changes.count; base += kWarpLanes) {
    const ChangeInLane<Unit> change = next;
    next = LoadChange(changes, base + kWarpLanes + Lane(), false);
    if (change.active) {
      const uint64_t element = first + (change.position - static_cast<uint32_t>(first));
      spans.Seek(element);
      const ElementWeight<Unit> weight = spans.template WeightOf<Unit>(element, word_factors);
      const auto target = static_cast<Unit>(change.old ^ change.bits);
      survey.before += weight.Lane0(change.old);
      survey.after += weight.Lane0(target);
      survey.lane1_change += weight.Lane1(target) - weight.Lane1(change.old);
    }
    if (dense) continue;
    const uint32_t bit_count = change.has_gap ? GapBitCountOf(GapSymbolOf(change.gap)) : 0;
    stream.Put(change.gap & ((1U << bit_count) - 1), bit_count);
    survey.varint_bytes += change.has_gap ? VarintBytesOf(change.gap) : 0;
  }
  survey.before = WarpSum(survey.before);
  survey.after = WarpSum(survey.after);
  survey.lane1_change = WarpSum(survey.lane1_change);
  survey.varint_bytes = static_cast<uint32_t>(WarpSum(survey.varint_bytes));
  if (!dense) survey.bit_words = stream.Finish();
  return survey;
}

// A group's value planes that have a table, the highest first.
template <typename Unit>
XORBIT_DEVICE void EncodeValues(const EncodeTable* tables, const int8_t* planes, bool active, Unit value, LaneCoder* coder) {
#ifdef __CUDACC__
#pragma unroll
#endif
  for (uint32_t plane = sizeof(Unit); plane-- > 0;) {
    if (planes[plane] < 0) continue;
    coder->Encode(tables[planes[plane]], active, static_cast<uint32_t>(value >> (8 * plane)) & 0xff);
  }
}

template <typename Unit>
XORBIT_DEVICE void EncodeSparse(const SendTables& set, const EncodeTable* tables, const TileChangesOnDevice<Unit>& changes,
                                LaneCoder* coder) {
  uint32_t base = (changes.count - 1) / kWarpLanes * kWarpLanes;
  ChangeInLane<Unit> next = LoadChange(changes, base + Lane(), false);
  for (;; base -= kWarpLanes) {
    const ChangeInLane<Unit> change = next;
    if (base > 0) next = LoadChange(changes, base - kWarpLanes + Lane(), false);
    EncodeValues<Unit>(tables, set.planes.data(), change.active, change.bits, coder);
    if (set.gaps >= 0) coder->Encode(tables[set.gaps], change.has_gap, GapSymbolOf(change.gap));
    if (base == 0) return;
  }
}

template <typename Unit>
XORBIT_DEVICE void EncodeDense(const SendTables& set, const EncodeTable* tables, const TileChangesOnDevice<Unit>& changes,
                               uint32_t element_count, EncodeWarpMemory* memory, LaneCoder* coder) {
  ElementGroups<Unit> groups(changes, memory->values);
  for (uint32_t base = (element_count - 1) / kWarpLanes * kWarpLanes;; base -= kWarpLanes) {
    EncodeValues<Unit>(tables, set.dense_planes.data(), base + Lane() < element_count, groups.Load(base), coder);
    if (base == 0) return;
  }
}

XORBIT_DEVICE uint64_t PaddedBytes(uint64_t bytes) { return (bytes + kTileAlignment - 1) / kTileAlignment * kTileAlignment; }

XORBIT_DEVICE uint32_t RawPlaneCount(const int8_t* planes, uint32_t unit_bytes) {
  uint32_t count = 0;
  for (uint32_t plane = 0; plane < unit_bytes; ++plane) count += planes[plane] == kNoTable ? 1 : 0;
  return count;
}

// Adds a tile to the totals; one lane.
template <typename Unit>
XORBIT_DEVICE void CountEncoded(SendCounters* counters, const TileSurvey& survey, uint32_t count, TileMode mode,
                                uint64_t saved_bytes) {
  AtomicAdd(&counters->lane0_change, survey.after - survey.before);
  AtomicAdd(&counters->lane1_change, survey.lane1_change);
  if (survey.before == survey.after && count > 1) AtomicAdd(&counters->unsplit_count, uint64_t{1});
  if (mode == TileMode::kSparse) {
    AtomicAdd(&counters->sparse_count, uint64_t{1});
    AtomicAdd(&counters->sparse_saved_bytes, saved_bytes);
  } else if (mode == TileMode::kDense) {
    AtomicAdd(&counters->dense_count, uint64_t{1});
    AtomicAdd(&counters->dense_saved_bytes, saved_bytes);
  }
}

// `tables` are the segment's in fast memory; see WordFactorAt for word_factors. Leaves a record without its offset.
template <typename Unit>
XORBIT_DEVICE void EncodeTile(const SendOnDevice& send, uint64_t tile_index, const EncodeTable* tables,
                              const uint64_t* word_factors, EncodeWarpMemory* memory) {
  const SendTile tile = TileAt(send, tile_index);
  const TileChangesOnDevice<Unit> changes = ChangesOf<Unit>(send, tile);
  const bool dense = (tile.flags & kTileDense) != 0;
  const uint64_t first = PositionOf<Unit>(send, tile.first_change);
  const uint32_t span = changes.span();
  const TileScratch scratch = ScratchOf(send, tile);
  const TileSurvey survey = Survey<Unit>(send, changes, first, dense, scratch.bits, word_factors, memory);

  const uint64_t raw_bytes = PaddedBytes((uint64_t{span} + 1) * sizeof(Unit));
  const uint64_t plain_bytes = dense ? ~uint64_t{0} : PaddedBytes(uint64_t{changes.count} * sizeof(Unit) + survey.varint_bytes);
  TileMode mode = raw_bytes <= plain_bytes ? TileMode::kRaw : TileMode::kPlain;
  uint64_t byte_count = raw_bytes <= plain_bytes ? raw_bytes : plain_bytes;
  uint64_t saved_bytes = 0;
  LaneCoder coder(scratch.words_end);
  uint32_t word_count = 0;
  if ((dense ? send.tables.has_dense : send.tables.has_sparse) != 0) {
    const uint32_t element_count = dense ? span + 1 : changes.count;
    if (dense) {
      EncodeDense<Unit>(send.tables, tables, changes, element_count, memory, &coder);
    } else {
      EncodeSparse<Unit>(send.tables, tables, changes, &coder);
    }
    word_count = static_cast<uint32_t>(scratch.words_end - coder.words());
    const int8_t* planes = dense ? send.tables.dense_planes.data() : send.tables.planes.data();
    const uint64_t plane_bytes = uint64_t{RawPlaneCount(planes, sizeof(Unit))} * element_count;
    const uint64_t coded_bytes = 4 * (element_count < kLanes ? element_count : kLanes) + PaddedBytes(plane_bytes) +
                                 PaddedBytes(2 * uint64_t{word_count}) + 4 * uint64_t{survey.bit_words};
    if (coded_bytes <= byte_count) {
      mode = dense ? TileMode::kDense : TileMode::kSparse;
      saved_bytes = byte_count - coded_bytes;
      byte_count = coded_bytes;
    }
  }
  TileCode& code = send.codes[tile_index];
  code.states[Lane()] = coder.state();
  if (Lane() != 0) return;
  code.byte_count = static_cast<uint32_t>(byte_count);
  code.word_count = word_count;
  code.bit_words = survey.bit_words;
  send.records[tile_index] = {
      first, 0, survey.before, survey.after, span, static_cast<uint16_t>(changes.count - 1), static_cast<uint8_t>(mode), 0};
  CountEncoded<Unit>(send.counters, survey, changes.count, mode, saved_bytes);
}

}  // namespace xorbit::cuda
