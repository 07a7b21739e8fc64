// One Zstd frame piece by piece, with the content size in its header: what each tensor of a weight_vNNNNNN folder is.
//
// Piece by piece because a tensor's mask may be gigabytes and is mostly zeros: neither side ever holds it.
#pragma once

#include <cstdint>
#include <memory>
#include <string_view>

#include "base/bytes.h"
#include "codec/zstd_frame.h"

namespace xorbit {

// Reads the untrusted bytes of one frame, which must outlive the reader. Memory is bounded by the smaller of the content and
// 128 MiB, the longest window that is accepted. Not thread-safe.
class ZstdFrameReader {
 public:
  // kCorrupt unless `frame` is exactly one frame that states its content size.
  static Result<ZstdFrameReader> Open(ConstBytes frame);
  uint64_t content_bytes() const { return content_bytes_; }
  // Fills `target` with the next bytes of the content; kCorrupt if there are not as many.
  Status Read(MutableBytes target);
  // Reads past the next `byte_count` bytes.
  Status Skip(uint64_t byte_count);
  // kCorrupt unless all of the content has been read and the frame ends here.
  Status Finish();

 private:
  // Decodes into `output` as far as it goes in one call.
  Status Step(ZSTD_outBuffer* output);

  std::unique_ptr<ZSTD_DCtx, ZstdContextDeleter> context_;
  ZSTD_inBuffer input_{};
  uint64_t content_bytes_ = 0;
  bool ended_ = false;  // the frame's end has been decoded
};

// Writes one frame. The bytes depend on content, level, sizes of the pieces and library version. Not thread-safe.
class ZstdFrameWriter {
 public:
  // kUsage if libzstd has no such level.
  static Result<ZstdFrameWriter> Make(int level, uint64_t content_bytes);
  Status Write(ConstBytes piece);
  // The frame, once exactly content_bytes have been written.
  Result<Buffer> Finish();

 private:
  Status Step(ConstBytes piece, ZSTD_EndDirective directive);

  std::unique_ptr<ZSTD_CCtx, ZstdContextDeleter> context_;
  Buffer scratch_;
  Buffer frame_;
};

// Longest frame that a writer makes of this many bytes.
uint64_t MaxStreamedZstdBytes(uint64_t content_bytes);

}  // namespace xorbit
