// The parts section of a payload: which elements of the layout a segment holds, as a few bytes. docs/formats/payload.md,
// "Parts".
//
// A payload that owns everything, or whole tensors in long runs, should not pay per tensor; FSDP ranges and tensor-parallel
// shards repeat from layer to layer and from expert to expert, and should not either. The numbers count the tensors of the
// segment's unit, empty ones left out, in layout order: what a section means depends on the layout digest alone, never on
// presence groups or frozen marks, which are only checked.
#pragma once

#include <cstdint>

#include "base/bytes.h"
#include "tensor/segment.h"

namespace xorbit {

// Operations: a varint, 4 * count + kind, count at least 1, and what stands behind it.
enum class PartsOp : uint8_t {
  kSkip = 0,    // the next `count` tensors hold nothing here
  kWhole = 1,   // the next `count` tensors, each whole
  kParts = 2,   // `count` parts of the next tensor follow: origin (after the first: less the previous one's), digit count, then
                // for each digit, slowest first, its count and, except for the last, its stride
  kRepeat = 3,  // a varint `period` follows: each of the next `count` tensors holds the same origin and digits, or nothing, as
                // the tensor `period` before it, which must hold at most one part
};

// Deterministic. The map must have been made for this layout.
Buffer EncodeParts(const Layout& layout, const SegmentMap& map);

// kCorrupt for whatever does not follow the format, reaches past the layout, or SegmentMap::Make refuses. Memory is bounded by
// a small multiple of bytes.size() plus one part a tensor.
Result<SegmentMap> DecodeParts(const Layout& layout, uint32_t unit_bytes, uint32_t group, ConstBytes bytes);

}  // namespace xorbit
