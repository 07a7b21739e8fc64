// One warp decodes one sparse tile: 32 changes a step, by the rules of docs/formats/sparse.md, from bytes that nobody vouches
// for.
//
// Whatever the bytes say, nothing outside the tile is read: cursors are compared with the tile's end before each load and go on
// counting behind it, so that one comparison at the end tells whether every stream was consumed exactly. It accepts and refuses
// the same bytes as codec/sparse_decoder.cc; changes of a tile that will be refused may reach the visitor first, never ones
// outside the tile's span.
//
// A visitor has Visit(bool active, uint32_t change_index, uint32_t offset, Unit xor_bits), called by all lanes together; active
// lanes hold a change that lies `offset` elements after the tile's first.
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
};

XORBIT_DEVICE bool AnyLane(bool vote) { return Ballot(vote) != 0; }

// One row: a symbol for each active lane, then refills, lanes ascending.
XORBIT_DEVICE uint32_t DecodeRow(const SymbolTable& table, bool active, LaneStreams* streams) {
  uint32_t symbol = 0;
  uint32_t state = streams->state;
  if (active) {
    const uint32_t slot = state % kFrequencySum;
    symbol = table.symbols[slot];
    const uint32_t interval = table.intervals[symbol];
    state = (interval & 0xffff) * (state >> kFrequencyBits) + slot - (interval >> 16);
  }
  const bool refill = active && state < kStateFloor;
  const uint32_t refills = Ballot(refill);
  if (refill) {
    const uint32_t word_index = streams->words_used + CountBits(refills & LanesBelow());
    const bool inside = word_index < streams->region_bytes / 2;
    state = state << 16 | (inside ? reinterpret_cast<const uint16_t*>(streams->region)[word_index] : 0);
  }
  streams->state = state;
  streams->words_used += CountBits(refills);
  return symbol;
}

// bit_count raw bits for each lane, lanes ascending.
XORBIT_DEVICE uint32_t TakeBits(uint32_t bit_count, LaneStreams* streams) {
  const uint32_t inclusive = InclusiveSum(bit_count);
  const uint32_t at = streams->bits_used + inclusive - bit_count;
  streams->bits_used += ShuffleFrom(inclusive, kWarpLanes - 1);
  if (bit_count == 0) return 0;
  const uint32_t word_count = streams->region_bytes / 4;
  const uint32_t word_index = at / 32;
  const auto* end = reinterpret_cast<const uint32_t*>(streams->region + streams->region_bytes);
  const uint32_t low = word_index < word_count ? *(end - 1 - word_index) : 0;
  const uint32_t high = word_index + 1 < word_count ? *(end - 2 - word_index) : 0;
  return FunnelShift(low, high, at % 32) & ((uint32_t{1} << bit_count) - 1);
}

// The XOR value of each active lane; raw planes stand at `raw`, `count` bytes each.
template <typename Unit>
XORBIT_DEVICE Unit DecodeValue(const TileView& tile, const std::array<int8_t, kMaxPlanes>& planes, const uint8_t* raw,
                               uint32_t count, uint32_t index, bool active, LaneStreams* streams) {
  Unit value = 0;
#ifdef __CUDACC__
#pragma unroll
#endif
  for (uint32_t plane = 0; plane < sizeof(Unit); ++plane) {
    uint32_t byte = 0;
    if (planes[plane] != kRawPlane) {
      byte = DecodeRow(tile.tables[planes[plane]], active, streams);
    } else {
      if (active) byte = raw[index];
      raw += count;
    }
    value = static_cast<Unit>(value | static_cast<Unit>(static_cast<Unit>(byte) << (8 * plane)));
  }
  return value;
}

// Finds a coded tile's streams behind its states and raw planes.
XORBIT_DEVICE TileError OpenStreams(const TileView& tile, const std::array<int8_t, kMaxPlanes>& planes, uint32_t unit_bytes,
                                    uint32_t count, const uint8_t** raw, LaneStreams* streams) {
  constexpr uint64_t kMostBytes = uint64_t{1} << 24;  // above what 64 Ki elements of 8 bytes can use
  if (tile.byte_count % kTileAlignment != 0 || tile.byte_count > kMostBytes) return TileError::kTruncated;
  const uint32_t lane_count = count < kLanes ? count : kLanes;
  uint32_t raw_bytes = 0;
  for (uint32_t plane = 0; plane < unit_bytes; ++plane) raw_bytes += planes[plane] == kRawPlane ? count : 0;
  const auto padded_bytes = static_cast<uint32_t>(PaddedTileBytes(raw_bytes));
  const uint32_t fixed_bytes = 4 * lane_count + padded_bytes;
  if (tile.byte_count < fixed_bytes) return TileError::kTruncated;
  *raw = tile.bytes + 4 * lane_count;
  streams->region = tile.bytes + fixed_bytes;
  streams->region_bytes = static_cast<uint32_t>(tile.byte_count) - fixed_bytes;
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

template <typename Unit, typename Visitor>
XORBIT_DEVICE TileError DecodeSparseTile(const TileView& tile, Visitor* visitor) {
  const uint32_t count = uint32_t{tile.record.count_minus_1} + 1;
  const uint32_t span = tile.record.span;
  const auto planes = tile.segment->planes;
  const SymbolTable& gaps = tile.tables[tile.segment->gap_table];
  const uint8_t* raw = nullptr;
  LaneStreams streams;
  const TileError opened = OpenStreams(tile, planes, sizeof(Unit), count, &raw, &streams);
  if (opened != TileError::kNone) return opened;
  bool leaves_span = false;
  bool no_change = false;
  uint32_t offset = 0;  // of the last change of the group before
  for (uint32_t group = 0; group < count; group += kLanes) {
    const uint32_t index = group + Lane();
    const bool active = index < count;
    const bool has_gap = active && index > 0;
    const uint32_t symbol = DecodeRow(gaps, has_gap, &streams);
    const uint32_t gap = GapBaseOf(symbol) + TakeBits(has_gap ? GapBitCountOf(symbol) : 0, &streams);
    // Sums are taken modulo 2^32. A step below 2^32 that takes one past it leaves less than itself, so the lane where that
    // happens first shows it.
    const uint32_t step = has_gap ? gap + 1 : 0;
    const uint32_t mine = offset + InclusiveSum(step);
    leaves_span |= has_gap && (gap >= span || mine < step || mine > span);
    offset = ShuffleFrom(mine, kLanes - 1);
    const Unit value = DecodeValue<Unit>(tile, planes, raw, count, index, active, &streams);
    no_change |= active && value == 0;
    visitor->Visit(active && mine <= span, index, mine, value);
  }
  if (AnyLane(leaves_span)) return TileError::kStreams;
  const TileError closed = CloseStreams(streams);
  if (closed != TileError::kNone) return closed;
  if (offset != span) return TileError::kLastElement;
  return AnyLane(no_change) ? TileError::kNoChange : TileError::kNone;
}

// Elements of a dense or raw tile, 32 a step: keeps count of those that change and hands them on.
template <typename Unit, typename Visitor>
struct ElementKeeper {
  Visitor* visitor;
  uint32_t kept = 0;
  bool ends_change = true;

  XORBIT_DEVICE void Take(const TileView& tile, bool active, uint32_t element, Unit value) {
    const bool changes = active && value != 0;
    if (active && (element == 0 || element == tile.record.span) && value == 0) ends_change = false;
    const uint32_t changing = Ballot(changes);
    const uint32_t index = kept + CountBits(changing & LanesBelow());
    kept += CountBits(changing);
    // An index beyond the record's count would leave the undo log.
    visitor->Visit(changes && index <= tile.record.count_minus_1, index, element, value);
  }
  XORBIT_DEVICE TileError Finish(const TileView& tile) const {
    const bool right = !AnyLane(!ends_change) && kept == uint32_t{tile.record.count_minus_1} + 1;
    return right ? TileError::kNone : TileError::kCount;
  }
};

template <typename Unit, typename Visitor>
XORBIT_DEVICE TileError DecodeDenseTile(const TileView& tile, Visitor* visitor) {
  const uint32_t count = tile.record.span + 1;  // at most 64 Ki
  const auto planes = tile.segment->dense_planes;
  const uint8_t* raw = nullptr;
  LaneStreams streams;
  const TileError opened = OpenStreams(tile, planes, sizeof(Unit), count, &raw, &streams);
  if (opened != TileError::kNone) return opened;
  ElementKeeper<Unit, Visitor> keeper{visitor};
  for (uint32_t group = 0; group < count; group += kLanes) {
    const uint32_t index = group + Lane();
    const bool active = index < count;
    keeper.Take(tile, active, index, DecodeValue<Unit>(tile, planes, raw, count, index, active, &streams));
  }
  const TileError closed = CloseStreams(streams);
  return closed != TileError::kNone ? closed : keeper.Finish(tile);
}

// Little-endian, at any alignment.
template <typename Unit>
XORBIT_DEVICE Unit LoadUnit(const uint8_t* from) {
  Unit value = 0;
  for (uint32_t i = 0; i < sizeof(Unit); ++i) {
    value = static_cast<Unit>(value | static_cast<Unit>(static_cast<Unit>(from[i]) << (8 * i)));
  }
  return value;
}

XORBIT_DEVICE bool IsPaddedTo(const TileView& tile, uint64_t used_bytes) {
  if (tile.byte_count != PaddedTileBytes(used_bytes)) return false;
  const uint64_t at = used_bytes + Lane();
  return !AnyLane(at < tile.byte_count && tile.bytes[at] != 0);
}

template <typename Unit, typename Visitor>
XORBIT_DEVICE TileError DecodeRawTile(const TileView& tile, Visitor* visitor) {
  const uint64_t count = uint64_t{tile.record.span} + 1;
  if (!IsPaddedTo(tile, count * sizeof(Unit))) return TileError::kLength;
  ElementKeeper<Unit, Visitor> keeper{visitor};
  for (uint64_t group = 0; group < count; group += kLanes) {
    const uint64_t index = group + Lane();
    const bool active = index < count;
    const Unit value = active ? LoadUnit<Unit>(tile.bytes + index * sizeof(Unit)) : Unit{0};
    keeper.Take(tile, active, static_cast<uint32_t>(index), value);
  }
  return keeper.Finish(tile);
}

// LEB128 of at most 64 bits without needless bytes. False, and then *at is unspecified, if there is none before `end`.
XORBIT_DEVICE bool ReadVarint(const uint8_t* bytes, uint64_t end, uint64_t* at, uint64_t* value) {
  *value = 0;
  for (uint32_t shift = 0; shift < 64; shift += 7) {
    if (*at >= end) return false;
    const uint8_t byte = bytes[(*at)++];
    if (shift == 63 && byte > 1) return false;
    *value |= uint64_t{byte & 0x7fU} << shift;
    if (byte < 0x80) return byte != 0 || shift == 0;
  }
  return false;
}

// Plain tiles are rare and small, so all lanes read all of them, one change after the other, and each keeps its own.
template <typename Unit, typename Visitor>
XORBIT_DEVICE TileError DecodePlainTile(const TileView& tile, Visitor* visitor) {
  const uint32_t count = uint32_t{tile.record.count_minus_1} + 1;
  uint64_t at = 0;
  uint32_t offset = 0;
  bool no_change = false;
  for (uint32_t group = 0; group < count; group += kLanes) {
    uint32_t mine = 0;
    Unit mine_bits = 0;
    for (uint32_t index = group; index < count && index < group + kLanes; ++index) {
      uint64_t gap = 0;
      if (index > 0) {
        if (!ReadVarint(tile.bytes, tile.byte_count, &at, &gap)) return TileError::kStreams;
        if (gap >= tile.record.span - offset) return TileError::kStreams;
        offset += static_cast<uint32_t>(gap) + 1;
      }
      if (tile.byte_count - at < sizeof(Unit)) return TileError::kTruncated;
      const Unit bits = LoadUnit<Unit>(tile.bytes + at);
      at += sizeof(Unit);
      no_change |= bits == 0;
      if (index % kLanes != Lane()) continue;
      mine = offset;
      mine_bits = bits;
    }
    visitor->Visit(group + Lane() < count, group + Lane(), mine, mine_bits);
  }
  if (offset != tile.record.span) return TileError::kLastElement;
  if (tile.byte_count != PaddedTileBytes(at)) return TileError::kUnusedBytes;
  if (!IsPaddedTo(tile, at)) return TileError::kPadding;
  return no_change ? TileError::kNoChange : TileError::kNone;
}

// The result is the same in all lanes.
template <typename Unit, typename Visitor>
XORBIT_DEVICE TileError DecodeTile(const TileView& tile, Visitor* visitor) {
  switch (static_cast<TileMode>(tile.record.mode)) {
    case TileMode::kSparse:
      return DecodeSparseTile<Unit>(tile, visitor);
    case TileMode::kDense:
      return DecodeDenseTile<Unit>(tile, visitor);
    case TileMode::kRaw:
      return DecodeRawTile<Unit>(tile, visitor);
    default:
      return DecodePlainTile<Unit>(tile, visitor);
  }
}

}  // namespace xorbit::cuda
