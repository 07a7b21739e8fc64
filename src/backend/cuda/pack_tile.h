// One warp writes one tile into the segment's body, in the mode that was chosen for it.
#pragma once

#include "backend/cuda/encode_tile.h"

namespace xorbit::cuda {

// Zeros from byte `begin` of the tile to the next multiple of its alignment.
XORBIT_DEVICE void PadFrom(uint8_t* tile, uint64_t begin) {
  const uint64_t end = PaddedBytes(begin);
  if (Lane() < end - begin) tile[begin + Lane()] = 0;
}

// 16-bit words from any even address, zeros up to a whole 32-bit word after them: several at once, because one load after the
// other would wait for memory each time.
XORBIT_DEVICE void CopyWords(const uint16_t* from, uint32_t count, uint32_t* target) {
  constexpr uint32_t kAtOnce = 4;
  const uint32_t pair_count = (count + 1) / 2;
  for (uint32_t base = 0; base < pair_count; base += kAtOnce * kWarpLanes) {
    uint32_t pairs[kAtOnce];
#ifdef __CUDACC__
#pragma unroll
#endif
    for (uint32_t j = 0; j < kAtOnce; ++j) {
      const uint32_t i = 2 * (base + j * kWarpLanes + Lane());
      pairs[j] = (i < count ? uint32_t{from[i]} : 0) | (i + 1 < count ? uint32_t{from[i + 1]} << 16 : 0);
    }
#ifdef __CUDACC__
#pragma unroll
#endif
    for (uint32_t j = 0; j < kAtOnce; ++j) {
      const uint32_t pair = base + j * kWarpLanes + Lane();
      if (pair < pair_count) target[pair] = pairs[j];
    }
  }
}

// The bytes of the planes without a table, at `target`; returns how many, without padding.
template <typename Unit>
XORBIT_DEVICE uint64_t PackRawPlanes(const TileChangesOnDevice<Unit>& changes, const int8_t* planes, bool dense,
                                     uint32_t element_count, uint64_t* values, uint8_t* target) {
  const uint64_t byte_count = uint64_t{RawPlaneCount(planes, sizeof(Unit))} * element_count;
  if (byte_count == 0) return 0;
  ElementGroups<Unit> groups(changes, values);
  for (uint32_t base = (element_count - 1) / kWarpLanes * kWarpLanes;; base -= kWarpLanes) {
    const uint32_t i = base + Lane();
    Unit value = 0;
    if (dense) {
      value = groups.Load(base);
    } else if (i < element_count) {
      value = changes.Load(i).change().bits;
    }
    uint8_t* plane_target = target + i;
    for (uint32_t plane = 0; plane < sizeof(Unit); ++plane) {
      if (planes[plane] != kNoTable) continue;
      if (i < element_count) *plane_target = static_cast<uint8_t>(value >> (8 * plane));
      plane_target += element_count;
    }
    if (base == 0) return byte_count;
  }
}

template <typename Unit>
XORBIT_DEVICE void PackCoded(const SendOnDevice& send, const SendTile& tile, const TileCode& code, uint32_t element_count,
                             uint64_t* values, uint8_t* target) {
  const bool dense = (tile.flags & kTileDense) != 0;
  const uint32_t lane_count = element_count < kLanes ? element_count : kLanes;
  auto* const words32 = reinterpret_cast<uint32_t*>(target);
  if (Lane() < lane_count) words32[Lane()] = code.states[Lane()];
  uint64_t at = 4 * uint64_t{lane_count};
  const int8_t* planes = dense ? send.tables.dense_planes.data() : send.tables.planes.data();
  const TileChangesOnDevice<Unit> changes = ChangesOf<Unit>(send, tile);
  at += PackRawPlanes<Unit>(changes, planes, dense, element_count, values, target + at);
  PadFrom(target, at);
  at = PaddedBytes(at);
  const TileScratch scratch = ScratchOf<Unit>(send, tile);
  CopyWords(scratch.words_end - code.word_count, code.word_count, reinterpret_cast<uint32_t*>(target + at));
  for (uint32_t i = Lane(); i < (code.bit_count + 31) / 32; i += kWarpLanes) {
    words32[code.byte_count / 4 - 1 - i] = StreamWord(scratch.bits_end, code.bit_count, i);
  }
}

template <typename Unit>
XORBIT_DEVICE void PackRaw(const TileChangesOnDevice<Unit>& changes, uint32_t byte_count, uint8_t* target) {
  for (uint32_t i = Lane(); i < byte_count / 4; i += kWarpLanes) reinterpret_cast<uint32_t*>(target)[i] = 0;
  SyncWarp();
  const uint32_t first_position = changes.PositionAt(0);
  for (uint32_t i = Lane(); i < changes.count; i += kWarpLanes) {
    const Change<Unit> change = changes.Load(i).change();
    const uint64_t at = uint64_t{change.position - first_position} * sizeof(Unit);
    for (uint32_t b = 0; b < sizeof(Unit); ++b) target[at + b] = static_cast<uint8_t>(change.bits >> (8 * b));
  }
}

template <typename Unit>
XORBIT_DEVICE void PackPlain(const TileChangesOnDevice<Unit>& changes, uint8_t* target) {
  uint64_t end = 0;
  for (uint32_t base = 0; base < changes.count; base += kWarpLanes) {
    const uint32_t i = base + Lane();
    const bool active = i < changes.count;
    const bool has_gap = active && i > 0;
    const Change<Unit> change = changes.Load(i).change();
    uint32_t gap = has_gap ? change.position - changes.PositionAt(i - 1) - 1 : 0;
    const uint32_t gap_bytes = has_gap ? VarintBytesOf(gap) : 0;
    const uint32_t byte_count = active ? gap_bytes + static_cast<uint32_t>(sizeof(Unit)) : 0;
    const uint32_t sum = InclusiveSum(byte_count);
    if (active) {
      uint8_t* at = target + end + (sum - byte_count);
      for (uint32_t b = 0; b < gap_bytes; ++b, gap >>= 7) {
        *at++ = static_cast<uint8_t>((gap & 0x7f) | (b + 1 < gap_bytes ? 0x80 : 0));
      }
      for (uint32_t b = 0; b < sizeof(Unit); ++b) *at++ = static_cast<uint8_t>(change.bits >> (8 * b));
    }
    end += ShuffleFrom(sum, kWarpLanes - 1);
  }
  PadFrom(target, end);
}

template <typename Unit>
XORBIT_DEVICE void PackTile(const SendOnDevice& send, uint64_t tile_index, EncodeWarpMemory* memory) {
  const SendTile tile = TileAt(send, tile_index);
  const TileRecord record = send.records[tile_index];
  const TileCode& code = send.codes[tile_index];
  if (record.offset + code.byte_count > send.body_capacity) return;  // the host will see that there was no room
  uint8_t* const target = send.body + record.offset;
  const TileChangesOnDevice<Unit> changes = ChangesOf<Unit>(send, tile);
  switch (static_cast<TileMode>(record.mode)) {
    case TileMode::kSparse:
      return PackCoded<Unit>(send, tile, code, tile.change_count, memory->values, target);
    case TileMode::kDense:
      return PackCoded<Unit>(send, tile, code, record.span + 1, memory->values, target);
    case TileMode::kRaw:
      return PackRaw<Unit>(changes, code.byte_count, target);
    case TileMode::kPlain:
      return PackPlain<Unit>(changes, target);
  }
}

}  // namespace xorbit::cuda
