// The mask codecs' records (docs/formats/mask-codecs.md says the same in the same words).
//
// A segment's XOR mask is cut into frames, each a stretch of elements inside one part; frames without changes are omitted. An
// *inner frame* is the frame's mask as one standard Snappy block, LZ4 block or Zstd frame; inner frames lie end to end in the
// *inner stream*. That stream is the segment's body, or, for the codecs named "+zstd", the body is its outer Zstd chunks.
#pragma once

#include <cstddef>
#include <cstdint>
#include <type_traits>

namespace xorbit {

// Readers accept frames of up to this many mask bytes; decompression engines take no longer ones.
inline constexpr uint64_t kMaxFrameBytes = uint64_t{4} << 20;

// Bytes of inner stream in an outer chunk; only the last one of a segment is shorter.
inline constexpr uint64_t kOuterChunkBytes = uint64_t{1} << 20;

struct FrameRecord {
  uint64_t first;          // segment element at which the frame starts
  uint64_t inner_offset;   // in the inner stream
  uint64_t before;         // lane 0 over touched elements; zero without digests
  uint64_t after;          // never equal to `before` where there are digests
  uint64_t inner_hash;     // XXH3-64 of the inner frame
  uint32_t element_count;  // the frame's stretch: its mask is this many units long
  uint32_t inner_bytes;
  uint32_t change_count;  // elements with a non-zero mask, at least 1
  uint32_t reserved;      // zero
};
static_assert(sizeof(FrameRecord) == 56 && std::is_trivially_copyable_v<FrameRecord>);
static_assert(offsetof(FrameRecord, inner_hash) == 32 && offsetof(FrameRecord, change_count) == 48);

struct OuterRecord {
  uint64_t offset;  // in the body
  uint32_t encoded_bytes;
  uint32_t inner_bytes;
};
static_assert(sizeof(OuterRecord) == 16 && std::is_trivially_copyable_v<OuterRecord>);
static_assert(offsetof(OuterRecord, encoded_bytes) == 8 && offsetof(OuterRecord, inner_bytes) == 12);

}  // namespace xorbit
