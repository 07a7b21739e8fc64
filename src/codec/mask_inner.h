// Inner codecs: one frame's mask as one standard stream, and back.
//
// A mask is almost all zero, and we know where it is not. So the Snappy and LZ4 encoders write their streams straight from the
// list of non-zero bytes; no dense mask is built and no match is searched. All use one rule: a literal holds the non-zero bytes
// of a cluster and one zero, and everything up to the next cluster is copied from one byte back. Every standard decoder reads
// that, and an outer Zstd sees the same few bytes over and over: half the size of what stock encoders lead to.
#pragma once

#include <cstdint>
#include <cstring>
#include <span>

#include "base/bytes.h"

namespace xorbit {

// A frame's mask as its non-zero bytes.
struct SparseMask {
  uint64_t mask_bytes = 0;              // at most kMaxFrameBytes
  std::span<const uint32_t> positions;  // ascending, below mask_bytes
  const uint8_t* values = nullptr;      // one non-zero byte a position
};

// Writes bytes [begin, end) of the mask, which hold changes [first, last), and returns where they end. Up to 8 bytes past that
// may be written too.
inline uint8_t* CopyMaskBytes(const SparseMask& mask, uint64_t begin, uint64_t end, uint64_t first, uint64_t last,
                              uint8_t* target) {
  if (end - begin <= sizeof(uint64_t)) {
    StoreLe(target, uint64_t{0});  // by far the commonest: a call of memset would double the encoders' time
  } else {
    std::memset(target, 0, end - begin);
  }
  for (uint64_t i = first; i < last; ++i) target[mask.positions[i] - begin] = mask.values[i];
  return target + (end - begin);
}

// Encoders may write this far past the bytes that they return, so that they can store whole words.
inline constexpr uint64_t kInnerSlackBytes = 64;

// Stateless; static lifetime; thread-safe.
class InnerCodec {
 public:
  InnerCodec() = default;
  InnerCodec(const InnerCodec&) = delete;
  InnerCodec& operator=(const InnerCodec&) = delete;
  virtual ~InnerCodec() = default;

  // The format's worst case for a mask of this length: no encoder of the field needs more, so readers refuse longer streams.
  virtual uint64_t MaxInnerBytes(uint64_t mask_bytes) const = 0;

  // Writes the stream to `target`, which has room for MaxInnerBytes(mask.mask_bytes) + kInnerSlackBytes, and returns its
  // length. `scratch` may be reused from call to call. zstd_level is for codecs that have levels.
  virtual Result<uint64_t> Encode(const SparseMask& mask, int zstd_level, uint8_t* target, Buffer* scratch) const = 0;

  // kCorrupt unless `inner` is exactly one stream of exactly mask.size() bytes. Reads and writes stay inside the spans whatever
  // the bytes say; the contents of `mask` are unspecified on failure.
  virtual Status Decode(ConstBytes inner, MutableBytes mask) const = 0;
};

const InnerCodec& SnappyInner();
const InnerCodec& Lz4Inner();
const InnerCodec& ZstdInner();

}  // namespace xorbit
