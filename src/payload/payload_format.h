// The payload file (.xob): one owner's share of a delta. docs/formats/payload.md says the same in the same words.
//
//   head   PayloadHeader | SegmentRecord x segment_count | ChunkRecord x chunk_count
//          | per segment: parts, tables, records, outer
//   body   the segments' bodies, end to end
//
// All integers little-endian. Every section of the head starts on a multiple of 8 bytes, so that records can be read in place;
// padding is zero. The head's length and SHA-256, and the whole file's, stand in the manifest.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "base/checked_math.h"

namespace xorbit {

inline constexpr std::array<char, 8> kPayloadMagic = {'X', 'O', 'R', 'B', 'I', 'T', 'P', 'L'};
inline constexpr uint32_t kPayloadFormatVersion = 1;

inline constexpr uint32_t kPayloadHasDigests = 1U << 0;
// A reader refuses flags it does not know.
inline constexpr uint32_t kPayloadKnownFlags = kPayloadHasDigests;

// Body chunks are cut at record borders once they hold at least this much: up to 1 MiB, more only for one large record, less
// only at the end.
inline constexpr uint64_t kChunkTargetBytes = uint64_t{512} << 10;

struct PayloadHeader {
  std::array<char, 8> magic;
  uint32_t format_version;
  uint32_t flags;
  uint64_t head_bytes;  // this header to the end of the last segment's sections, padded to 8
  uint64_t body_bytes;
  std::array<uint8_t, 32> layout_digest;
  uint32_t owner_index;
  uint32_t owner_count;
  uint32_t codec;  // CodecId
  uint32_t segment_count;
  uint64_t chunk_count;
  uint64_t change_count;  // elements with new != old
  uint64_t change_lane0;  // state digest, after - before; zero without digests
  uint64_t change_lane1;
};
static_assert(sizeof(PayloadHeader) == 112 && std::is_trivially_copyable_v<PayloadHeader>);
static_assert(offsetof(PayloadHeader, layout_digest) == 32 && offsetof(PayloadHeader, chunk_count) == 80);

struct SegmentRecord {
  uint32_t unit_bytes;
  uint32_t group;  // presence group
  uint64_t element_count;
  uint64_t change_count;
  uint64_t record_count;
  uint64_t body_bytes;
  uint64_t parts_bytes;  // section lengths without padding
  uint64_t tables_bytes;
  uint64_t records_bytes;
  uint64_t outer_bytes;
};
static_assert(sizeof(SegmentRecord) == 72 && std::is_trivially_copyable_v<SegmentRecord>);

struct ChunkRecord {
  uint64_t byte_count;  // chunks follow each other in the body
  std::array<uint8_t, 32> sha256;
};
static_assert(sizeof(ChunkRecord) == 40 && std::is_trivially_copyable_v<ChunkRecord>);

}  // namespace xorbit
