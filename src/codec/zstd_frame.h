// Single Zstd frames of known size: what the `zstd` codec's frames and the outer chunks of the "+zstd" codecs are. And what
// zstd_stream.h, which has them piece by piece, shares with it.
#pragma once

#include <zstd.h>

#include <cstdint>

#include "base/bytes.h"

namespace xorbit {

struct ZstdContextDeleter {
  void operator()(ZSTD_CCtx* context) const { ZSTD_freeCCtx(context); }
  void operator()(ZSTD_DCtx* context) const { ZSTD_freeDCtx(context); }
};

// kUsage if libzstd has no such level.
Status CheckZstdLevel(int level);

// The content size that `frame` states; kCorrupt unless it is exactly one Zstd frame that states one. libzstd would also skip
// "skippable" frames, and may be built to read its old formats: neither belongs here.
Result<uint64_t> StatedZstdContentBytes(ConstBytes frame);

// Longest frame that CompressZstdFrame makes of this many bytes.
uint64_t MaxZstdFrameBytes(uint64_t content_bytes);

// One frame with content size and without checksum (payload chunks carry better ones) at `target`, which has room for
// MaxZstdFrameBytes(content.size()). Returns its length. The bytes depend on content, level and library version only. A level
// outside the library's range is kUsage. Thread-safe.
Result<uint64_t> CompressZstdFrame(ConstBytes content, int level, uint8_t* target);

// kCorrupt unless `frame` is exactly one Zstd frame that states and has exactly target.size() bytes of content; the contents of
// `target` are unspecified then. Memory is bounded whatever the frame says. Thread-safe.
Status DecompressZstdFrame(ConstBytes frame, MutableBytes target);

}  // namespace xorbit
