// How a dense tile is laid out in pre-flight, for the pause: a bit for each part of the live memory that it covers, and the
// XORs of the parts that change, in the order of memory.
//
// Decoding such a tile takes longer than moving the memory that it changes. This form is read as fast as memory moves: the bits
// tell each lane where its values are, and nothing waits for the symbol before.
//
// Live memory is seen as vectors of 16 bytes from the line of 128 on in which the tile begins, so that rows are whole lines:
// 32 of them, one a lane, are a row, two rows a pair, and as many rows as one word a lane has bits for are a block. A part is
// an element, or half of one of 8 bytes. The form:
//
//     narrow    u32 x 32        bit p % 32 of word p / 32: the values of pair p fit in a byte each, and take no more
//     bitmaps   u32 x 32 a block, one a lane: rows ascending from the low bit on, a bit for each part of the lane's vector
//     values    of each pair's parts that change, those of its first row first, lanes ascending; pairs at multiples of a part
#pragma once

#include <type_traits>

#include "backend/cuda/update_on_device.h"
#include "backend/cuda/warp.h"

namespace xorbit::cuda {

template <typename Unit>
using BitmapPart = std::conditional_t<sizeof(Unit) == 8, uint32_t, Unit>;

// The same for parts of any size.
inline constexpr uint32_t kRowBytes = kWarpLanes * kVectorBytes;
constexpr uint32_t BlockBytesOf(uint32_t part_bytes) { return 2 * part_bytes * kRowBytes; }

// Where the parts of a tile's form are, all in bytes.
struct BitmapForm {
  uint64_t base;  // address of the first vector; what follows counts from there, or from the form's begin
  uint32_t head;  // of the tile
  uint32_t end;
  uint32_t block_count;
  uint32_t values;
  uint64_t byte_count;  // of the form, at most
};

constexpr uint64_t RoundUpToLine(uint64_t bytes) {
  return (bytes + kBitmapAlignment - 1) / kBitmapAlignment * kBitmapAlignment;
}

// Of a tile whose elements lie one after the other from `address` on. They take kMostBitmapTileBytes at most, so that a word of
// each lane tells of all pairs; tiles that the format calls dense take half of that.
inline constexpr uint64_t kMostBitmapTileBytes = kWarpLanes * 32 * 2 * kRowBytes - kBitmapAlignment;
XORBIT_DEVICE BitmapForm MakeBitmapForm(uint64_t address, const TileRecord& record, uint32_t unit_bytes) {
  const uint32_t part_bytes = unit_bytes < 4 ? unit_bytes : 4;
  BitmapForm form{};
  form.head = static_cast<uint32_t>(address % kBitmapAlignment);
  form.base = address - form.head;
  form.end = form.head + (record.span + 1) * unit_bytes;
  form.block_count = (form.end + BlockBytesOf(part_bytes) - 1) / BlockBytesOf(part_bytes);
  form.values = (1 + form.block_count) * kWarpLanes * static_cast<uint32_t>(sizeof(uint32_t));
  form.byte_count = form.values + RoundUpToLine((uint64_t{record.count_minus_1} + 1) * unit_bytes);
  return form;
}

// What a pair's values take.
template <typename Part>
XORBIT_DEVICE uint32_t BitmapValueBytes(uint32_t count, bool is_narrow) {
  if (!is_narrow) return count * sizeof(Part);
  return (count + sizeof(Part) - 1) / sizeof(Part) * sizeof(Part);
}

// A box's element at `element` of the segment, in one row.
XORBIT_DEVICE uint64_t AddressIn(const LiveBox& box, uint64_t element, uint32_t unit_bytes) {
  return box.address + (element - box.first) * unit_bytes;
}

}  // namespace xorbit::cuda
