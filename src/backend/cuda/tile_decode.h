// One warp decodes one sparse tile: 32 changes a step, by the rules of docs/formats/sparse.md, from bytes that nobody vouches
// for.
//
// Whatever the bytes say, nothing outside the tile is read: cursors are compared with the tile's end before each load and go on
// counting behind it, so that one comparison at the end tells whether every stream was consumed exactly. It accepts and refuses
// the same bytes as codec/sparse_decoder.cc; changes of a tile that will be refused may reach the visitor first, never ones
// outside the tile's span.
//
// A visitor has Visit(bool active, uint32_t change_index, uint32_t offset, uint32_t last, Unit xor_bits), called by all lanes
// together. Active lanes hold a change that lies `offset` elements after the tile's first; `last`, the same in all lanes, is
// the greatest offset of them.
//
// Loads are not put under conditions: an index is held inside the tile instead, and what it reads is not used or counts for
// nothing, since a stream that is read beyond its end is refused when it is closed.
#pragma once

#include "backend/cuda/update_on_device.h"
#include "backend/cuda/warp.h"

namespace xorbit::cuda {

// A tile, and its segment's tables in fast memory. The same in all lanes.
struct TileView {
  TileRecord record;
  const uint8_t* bytes;
  uint64_t byte_count;
  const SymbolTable* tables;
  const SegmentOnDevice* segment;
};

// Where a tile's streams stand. `state` is the lane's own, the rest is the same in all lanes.
struct LaneStreams {
  uint32_t state = kStateFloor;
  uint32_t words_used = 0;
  uint32_t bits_used = 0;
  const uint8_t* region = nullptr;  // words from the front, raw gap bits from the back
  uint32_t region_bytes = 0;
  // Of the region, or, if it is empty, of what stands before it.
  const uint8_t* words = nullptr;
  uint32_t max_word = 0;
  uint32_t max_of_bits = 0;
};

XORBIT_DEVICE uint32_t Least(uint32_t a, uint32_t b) { return a < b ? a : b; }

// One row: a symbol for each active lane, then refills, lanes ascending. What other lanes get is some symbol.
XORBIT_DEVICE uint32_t DecodeRow(const SymbolTable& table, bool active, LaneStreams* streams) {
  const uint32_t slot = streams->state % kFrequencySum;
  const uint32_t symbol = table.symbols[slot];
  const uint32_t interval = table.intervals[symbol];
  const uint32_t state = (interval & 0xffff) * (streams->state >> kFrequencyBits) + slot - (interval >> 16);
  const bool refill = active && state < kStateFloor;
  const uint32_t refills = Ballot(refill);
  const uint32_t word_index = streams->words_used + CountBits(refills & LanesBelow());
  const uint32_t word = LoadBody(reinterpret_cast<const uint16_t*>(streams->words) + Least(word_index, streams->max_word));
  const uint32_t next = refill ? state << 16 | word : state;
  streams->state = active ? next : streams->state;
  streams->words_used += CountBits(refills);
  return symbol;
}

// bit_count raw bits for each lane, lanes ascending.
XORBIT_DEVICE uint32_t TakeBits(uint32_t bit_count, LaneStreams* streams) {
  const uint32_t inclusive = InclusiveSum(bit_count);
  const uint32_t at = streams->bits_used + inclusive - bit_count;
  streams->bits_used += ShuffleFrom(inclusive, kWarpLanes - 1);
  const uint32_t word_index = at / 32;
  const auto* bits = reinterpret_cast<const uint32_t*>(streams->words);
  const uint32_t low = LoadBody(bits + (streams->max_of_bits - Least(word_index, streams->max_of_bits)));
  const uint32_t high = LoadBody(bits + (streams->max_of_bits - Least(word_index + 1, streams->max_of_bits)));
  return FunnelShift(low, high, at % 32) & ((uint32_t{1} << bit_count) - 1);
}

// The tables of a segment's streams in one mode. null: the plane is raw.
template <typename Unit>
struct TileTables {
  const SymbolTable* gaps = nullptr;
  const SymbolTable* planes[sizeof(Unit)] = {};

  XORBIT_DEVICE bool all_coded() const {
    bool coded = true;
    for (const SymbolTable* plane : planes) coded &= plane != nullptr;
    return coded;
  }
  XORBIT_DEVICE uint32_t raw_bytes(uint32_t count) const {
    uint32_t bytes = 0;
    for (const SymbolTable* plane : planes) bytes += plane == nullptr ? count : 0;
    return bytes;
  }
};

template <typename Unit>
XORBIT_DEVICE TileTables<Unit> TablesOf(const TileView& tile, const std::array<int8_t, kMaxPlanes>& planes) {
  TileTables<Unit> tables;
  tables.gaps = tile.tables + tile.segment->gap_table;
  for (uint32_t plane = 0; plane < sizeof(Unit); ++plane) {
    if (planes[plane] != kRawPlane) tables.planes[plane] = tile.tables + planes[plane];
  }
  return tables;
}

// The XOR value of each active lane; raw planes stand at `raw`, `count` bytes each. kAllCoded: there are none.
template <bool kAllCoded, typename Unit>
XORBIT_DEVICE Unit DecodeValue(const TileTables<Unit>& tables, const uint8_t* raw, uint32_t count, uint32_t index, bool active,
                               LaneStreams* streams) {
  Unit value = 0;
#ifdef __CUDACC__
#pragma unroll
#endif
  for (uint32_t plane = 0; plane < sizeof(Unit); ++plane) {
    uint32_t byte = 0;
    if (kAllCoded || tables.planes[plane] != nullptr) {
      byte = DecodeRow(*tables.planes[plane], active, streams);
    } else {
      if (active) byte = raw[index];
      raw += count;
    }
    value = static_cast<Unit>(value | static_cast<Unit>(static_cast<Unit>(byte) << (8 * plane)));
  }
  return value;
}

// Finds a coded tile's streams behind its states and raw planes.
XORBIT_DEVICE TileError OpenStreams(const TileView& tile, uint32_t raw_bytes, uint32_t count, const uint8_t** raw,
                                    LaneStreams* streams) {
  constexpr uint64_t kMostBytes = uint64_t{1} << 24;  // above what 64 Ki elements of 8 bytes can use
  if (tile.byte_count % kTileAlignment != 0 || tile.byte_count > kMostBytes) return TileError::kTruncated;
  constexpr uint32_t kLineBytes = 128;
  for (uint32_t at = kLineBytes * Lane(); at < tile.byte_count; at += kLineBytes * kWarpLanes) PrefetchBody(tile.bytes + at);
  const uint32_t lane_count = count < kLanes ? count : kLanes;
  const auto padded_bytes = static_cast<uint32_t>(PaddedTileBytes(raw_bytes));
  const uint32_t fixed_bytes = 4 * lane_count + padded_bytes;
  if (tile.byte_count < fixed_bytes) return TileError::kTruncated;
  *raw = tile.bytes + 4 * lane_count;
  streams->region = tile.bytes + fixed_bytes;
  streams->region_bytes = static_cast<uint32_t>(tile.byte_count) - fixed_bytes;
  // A lane's state stands before an empty region.
  const uint32_t room = streams->region_bytes > 0 ? streams->region_bytes : 4;
  streams->words = tile.bytes + tile.byte_count - room;
  streams->max_word = room / 2 - 1;
  streams->max_of_bits = room / 4 - 1;
  const uint32_t lane = Lane();
  if (lane < lane_count) streams->state = reinterpret_cast<const uint32_t*>(tile.bytes)[lane];
  if (AnyLane(streams->state < kStateFloor)) return TileError::kLaneStart;
  if (AnyLane(lane < padded_bytes - raw_bytes && (*raw)[raw_bytes + lane] != 0)) return TileError::kPadding;
  return TileError::kNone;
}

// Every stream consumed exactly, all padding zero.
XORBIT_DEVICE TileError CloseStreams(const LaneStreams& streams) {
  const uint64_t word_bytes = uint64_t{2} * streams.words_used;
  const uint64_t bit_bytes = uint64_t{4} * ((streams.bits_used + 31) / 32);
  if (word_bytes > streams.region_bytes || bit_bytes > streams.region_bytes) return TileError::kStreams;
  if (AnyLane(streams.state != kStateFloor)) return TileError::kLaneEnd;
  if (PaddedTileBytes(word_bytes) + bit_bytes != streams.region_bytes) return TileError::kUnusedBytes;
  if (word_bytes % 4 != 0 && *reinterpret_cast<const uint16_t*>(streams.region + word_bytes) != 0) return TileError::kPadding;
  const uint32_t used = streams.bits_used % 32;
  const auto* last = reinterpret_cast<const uint32_t*>(streams.region + streams.region_bytes - bit_bytes);
  if (used != 0 && *last >> used != 0) return TileError::kPadding;
  return TileError::kNone;
}

// What decoding a sparse tile carries from group to group.
struct SparseProgress {
  LaneStreams streams;
  const uint8_t* raw = nullptr;
  uint32_t offset = 0;  // of the last change of the group before
  bool leaves_span = false;
  bool no_change = false;
};

// The 32 changes from `group` on; kInside: neither the first of them nor the last.
template <bool kInside, bool kAllCoded, typename Unit, typename Visitor>
XORBIT_DEVICE void DecodeGroup(const TileTables<Unit>& tables, uint32_t span, uint32_t count, uint32_t group,
                               SparseProgress* progress, Visitor* visitor) {
  const uint32_t index = group + Lane();
  const bool active = kInside || index < count;
  const bool has_gap = kInside || (active && index > 0);
  const uint32_t symbol = DecodeRow(*tables.gaps, has_gap, &progress->streams);
  const uint32_t gap = GapBaseOf(symbol) + TakeBits(has_gap ? GapBitCountOf(symbol) : 0, &progress->streams);
  // Sums are taken modulo 2^32. A step below 2^32 that takes one past it leaves less than itself, so the lane where that
  // happens first shows it.
  const uint32_t step = has_gap ? gap + 1 : 0;
  const uint32_t mine = progress->offset + InclusiveSum(step);
  progress->leaves_span |= has_gap && (gap >= span || mine < step || mine > span);
  progress->offset = ShuffleFrom(mine, kLanes - 1);
  const Unit value = DecodeValue<kAllCoded>(tables, progress->raw, count, index, active, &progress->streams);
  progress->no_change |= active && value == 0;
  visitor->Visit(active && mine <= span, index, mine, progress->offset, value);
}

// kAllCoded: no plane is raw.
template <bool kAllCoded, typename Unit, typename Visitor>
XORBIT_DEVICE TileError DecodeSparseTile(const TileView& tile, const TileTables<Unit>& tables, Visitor* visitor) {
  const uint32_t count = uint32_t{tile.record.count_minus_1} + 1;
  const uint32_t span = tile.record.span;
  SparseProgress progress;
  const TileError opened = OpenStreams(tile, tables.raw_bytes(count), count, &progress.raw, &progress.streams);
  if (opened != TileError::kNone) return opened;
#ifdef __CUDACC__
#pragma unroll 1
#endif
  for (uint32_t group = 0; group < count; group += kLanes) {
    if (group > 0 && group + kLanes <= count) {
      DecodeGroup<true, kAllCoded>(tables, span, count, group, &progress, visitor);
    } else {
      DecodeGroup<false, kAllCoded>(tables, span, count, group, &progress, visitor);
    }
  }
  if (AnyLane(progress.leaves_span)) return TileError::kStreams;
  const TileError closed = CloseStreams(progress.streams);
  if (closed != TileError::kNone) return closed;
  if (progress.offset != span) return TileError::kLastElement;
  return AnyLane(progress.no_change) ? TileError::kNoChange : TileError::kNone;
}

}  // namespace xorbit::cuda
