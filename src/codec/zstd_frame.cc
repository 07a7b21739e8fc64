#include "codec/zstd_frame.h"

#include <memory>
#include <string>

namespace xorbit {
namespace {

Status OutOfMemory() { return IoError("no memory for a Zstd context"); }

}  // namespace

Status CheckZstdLevel(int level) {
  if (level >= ZSTD_minCLevel() && level <= ZSTD_maxCLevel()) return {};
  return UsageError("Zstd level " + std::to_string(level) + " is outside " + std::to_string(ZSTD_minCLevel()) + " to " +
                    std::to_string(ZSTD_maxCLevel()));
}

Result<uint64_t> StatedZstdContentBytes(ConstBytes frame) {
  if (frame.size() < sizeof(uint32_t) || LoadLe<uint32_t>(frame.data()) != ZSTD_MAGICNUMBER) {
    return CorruptError("does not start with a Zstd frame");
  }
  const unsigned long long content_bytes = ZSTD_getFrameContentSize(frame.data(), frame.size());
  if (content_bytes == ZSTD_CONTENTSIZE_UNKNOWN || content_bytes == ZSTD_CONTENTSIZE_ERROR) {
    return CorruptError("holds a Zstd frame that does not state its content size");
  }
  const size_t frame_bytes = ZSTD_findFrameCompressedSize(frame.data(), frame.size());
  if (ZSTD_isError(frame_bytes)) return CorruptError(std::string("Zstd says: ") + ZSTD_getErrorName(frame_bytes));
  if (frame_bytes != frame.size()) return CorruptError("holds more than one Zstd frame");
  return content_bytes;
}

uint64_t MaxZstdFrameBytes(uint64_t content_bytes) { return ZSTD_compressBound(content_bytes); }

Result<uint64_t> CompressZstdFrame(ConstBytes content, int level, uint8_t* target) {
  XORBIT_RETURN_IF_ERROR(CheckZstdLevel(level));
  // A context costs more to set up than a small frame takes to compress; a thread keeps its own until it ends.
  thread_local const std::unique_ptr<ZSTD_CCtx, ZstdContextDeleter> context(ZSTD_createCCtx());
  if (!context) return OutOfMemory();
  const size_t written =
      ZSTD_compressCCtx(context.get(), target, MaxZstdFrameBytes(content.size()), content.data(), content.size(), level);
  if (ZSTD_isError(written)) return IoError(std::string("Zstd cannot compress: ") + ZSTD_getErrorName(written));
  return written;
}

Status DecompressZstdFrame(ConstBytes frame, MutableBytes target) {
  XORBIT_ASSIGN_OR_RETURN(const uint64_t content_bytes, StatedZstdContentBytes(frame));
  if (content_bytes != target.size()) {
    return CorruptError("holds a Zstd frame that does not state a content of " + std::to_string(target.size()) + " bytes");
  }
  thread_local const std::unique_ptr<ZSTD_DCtx, ZstdContextDeleter> context(ZSTD_createDCtx());
  if (!context) return OutOfMemory();
  // In one call libzstd decodes straight into `target` and allocates no window.
  const size_t written = ZSTD_decompressDCtx(context.get(), target.data(), target.size(), frame.data(), frame.size());
  if (ZSTD_isError(written)) return CorruptError(std::string("Zstd says: ") + ZSTD_getErrorName(written));
  if (written != target.size()) return CorruptError("holds a Zstd frame shorter than it states");
  return {};
}

}  // namespace xorbit
