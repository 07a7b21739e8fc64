// The modes of a tile besides the sparse one, by the same rules as tile_decode.h: every element (dense, raw), or few changes
// (plain).
#pragma once

#include "backend/cuda/tile_decode.h"

namespace xorbit::cuda {

// Elements of a dense or raw tile, 32 a step: keeps count of those that change and hands them on.
template <typename Unit, typename Visitor>
struct ElementKeeper {
  Visitor* visitor;
  uint32_t kept = 0;
  bool ends_change = true;

  // Elements from `group` on, of which the tile has `count`.
  XORBIT_DEVICE void Take(const TileView& tile, uint64_t group, uint64_t count, Unit value) {
    const uint64_t end = group + kLanes < count ? group + kLanes : count;
    const auto last = static_cast<uint32_t>(end - 1);
    const bool active = group + Lane() < end;
    const auto element = static_cast<uint32_t>(group + Lane());
    const bool changes = active && value != 0;
    if (active && (element == 0 || element == tile.record.span) && value == 0) ends_change = false;
    const uint32_t changing = Ballot(changes);
    const uint32_t index = kept + CountBits(changing & LanesBelow());
    kept += CountBits(changing);
    // An index beyond the record's count would leave the undo log.
    visitor->Visit(changes && index <= tile.record.count_minus_1, index, element, last, value);
  }
  XORBIT_DEVICE TileError Finish(const TileView& tile) const {
    const bool right = !AnyLane(!ends_change) && kept == uint32_t{tile.record.count_minus_1} + 1;
    return right ? TileError::kNone : TileError::kCount;
  }
};

template <typename Unit, typename Visitor>
XORBIT_DEVICE TileError DecodeDenseTile(const TileView& tile, Visitor* visitor) {
  const uint32_t count = tile.record.span + 1;  // at most 64 Ki
  const TileTables<Unit> tables = TablesOf<Unit>(tile, tile.segment->dense_planes);
  const uint8_t* raw = nullptr;
  LaneStreams streams;
  const TileError opened = OpenStreams(tile, tables.raw_bytes(count), count, &raw, &streams);
  if (opened != TileError::kNone) return opened;
  ElementKeeper<Unit, Visitor> keeper{visitor};
  for (uint32_t group = 0; group < count; group += kLanes) {
    const uint32_t index = group + Lane();
    const bool active = index < count;
    keeper.Take(tile, group, count, DecodeValue<false>(tables, raw, count, index, active, &streams));
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
    keeper.Take(tile, group, count, value);
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
    visitor->Visit(group + Lane() < count, group + Lane(), mine, offset, mine_bits);
  }
  if (offset != tile.record.span) return TileError::kLastElement;
  if (tile.byte_count != PaddedTileBytes(at)) return TileError::kUnusedBytes;
  if (!IsPaddedTo(tile, at)) return TileError::kPadding;
  return no_change ? TileError::kNoChange : TileError::kNone;
}

// The result is the same in all lanes.
template <typename Unit, typename Visitor>
XORBIT_DEVICE TileError DecodeOtherTile(const TileView& tile, Visitor* visitor) {
  switch (static_cast<TileMode>(tile.record.mode)) {
    case TileMode::kDense:
      return DecodeDenseTile<Unit>(tile, visitor);
    case TileMode::kRaw:
      return DecodeRawTile<Unit>(tile, visitor);
    default:
      return DecodePlainTile<Unit>(tile, visitor);
  }
}

}  // namespace xorbit::cuda
