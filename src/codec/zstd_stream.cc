#include "codec/zstd_stream.h"

#include <algorithm>
#include <array>
#include <string>
#include <utility>

namespace xorbit {
namespace {

constexpr int kMaxWindowLog = 27;  // 128 MiB: what `zstd` itself accepts without --long, and far above level 1

Status ZstdCorrupt(size_t code) { return CorruptError(std::string("Zstd says: ") + ZSTD_getErrorName(code)); }

// Whether the frame's header asks for a longer window. libzstd looks only when it must keep one: a frame that fits the buffer
// that it is decoded into would pass, and whether it fits is nobody's business.
bool AsksForTooLongWindow(ConstBytes frame) {
  constexpr size_t kDescriptorAt = sizeof(uint32_t);
  constexpr uint8_t kSingleSegment = 0x20;  // the content is the window, and there is no byte that says so
  if (frame.size() < kDescriptorAt + 2 || (frame[kDescriptorAt] & kSingleSegment) != 0) return false;
  const uint8_t window = frame[kDescriptorAt + 1];  // five bits of exponent, three of mantissa
  const int log = 10 + (window >> 3);
  return log > kMaxWindowLog || (log == kMaxWindowLog && (window & 7) != 0);
}

}  // namespace

Result<ZstdFrameReader> ZstdFrameReader::Open(ConstBytes frame) {
  XORBIT_ASSIGN_OR_RETURN(const uint64_t content_bytes, StatedZstdContentBytes(frame));
  if (AsksForTooLongWindow(frame)) return CorruptError("holds a Zstd frame with a window over 128 MiB");
  ZstdFrameReader reader;
  reader.context_.reset(ZSTD_createDCtx());
  if (!reader.context_) return IoError("no memory for a Zstd context");
  const size_t set = ZSTD_DCtx_setParameter(reader.context_.get(), ZSTD_d_windowLogMax, kMaxWindowLog);
  if (ZSTD_isError(set)) return IoError(std::string("Zstd says: ") + ZSTD_getErrorName(set));
  reader.input_ = {frame.data(), frame.size(), 0};
  reader.content_bytes_ = content_bytes;
  return reader;
}

Status ZstdFrameReader::Step(ZSTD_outBuffer* output) {
  if (ended_) return CorruptError("holds less than its Zstd frame states");
  const size_t input_before = input_.pos;
  const size_t output_before = output->pos;
  const size_t code = ZSTD_decompressStream(context_.get(), output, &input_);
  if (ZSTD_isError(code)) return ZstdCorrupt(code);
  ended_ = code == 0;
  const bool stuck = input_.pos == input_before && output->pos == output_before;
  if (stuck && !ended_) return CorruptError("holds a Zstd frame that ends early");
  return {};
}

Status ZstdFrameReader::Read(MutableBytes target) {
  ZSTD_outBuffer output{target.data(), target.size(), 0};
  while (output.pos < output.size) XORBIT_RETURN_IF_ERROR(Step(&output));
  return {};
}

Status ZstdFrameReader::Skip(uint64_t byte_count) {
  std::array<uint8_t, 16384> scratch;
  while (byte_count > 0) {
    const uint64_t step = std::min<uint64_t>(byte_count, scratch.size());
    XORBIT_RETURN_IF_ERROR(Read({scratch.data(), step}));
    byte_count -= step;
  }
  return {};
}

Status ZstdFrameReader::Finish() {
  uint8_t surplus = 0;
  ZSTD_outBuffer output{&surplus, 1, 0};
  while (!ended_) {
    XORBIT_RETURN_IF_ERROR(Step(&output));
    if (output.pos != 0) return CorruptError("holds more than was asked of its Zstd frame");
  }
  return {};
}

Result<ZstdFrameWriter> ZstdFrameWriter::Make(int level, uint64_t content_bytes) {
  XORBIT_RETURN_IF_ERROR(CheckZstdLevel(level));
  ZstdFrameWriter writer;
  writer.context_.reset(ZSTD_createCCtx());
  if (!writer.context_) return IoError("no memory for a Zstd context");
  ZSTD_CCtx* context = writer.context_.get();
  for (const size_t code :
       {ZSTD_CCtx_setParameter(context, ZSTD_c_compressionLevel, level),
        ZSTD_CCtx_setParameter(context, ZSTD_c_contentSizeFlag, 1), ZSTD_CCtx_setPledgedSrcSize(context, content_bytes)}) {
    if (ZSTD_isError(code)) return IoError(std::string("Zstd cannot compress: ") + ZSTD_getErrorName(code));
  }
  writer.scratch_.resize(ZSTD_CStreamOutSize());
  return writer;
}

Status ZstdFrameWriter::Step(ConstBytes piece, ZSTD_EndDirective directive) {
  ZSTD_inBuffer input{piece.data(), piece.size(), 0};
  while (true) {
    ZSTD_outBuffer output{scratch_.data(), scratch_.size(), 0};
    const size_t left = ZSTD_compressStream2(context_.get(), &output, &input, directive);
    if (ZSTD_isError(left)) return IoError(std::string("Zstd cannot compress: ") + ZSTD_getErrorName(left));
    AppendBytes(frame_, {scratch_.data(), output.pos});
    if (directive == ZSTD_e_continue ? input.pos == input.size : left == 0) return {};
  }
}

Status ZstdFrameWriter::Write(ConstBytes piece) { return Step(piece, ZSTD_e_continue); }

Result<Buffer> ZstdFrameWriter::Finish() {
  XORBIT_RETURN_IF_ERROR(Step({}, ZSTD_e_end));
  return std::move(frame_);
}

uint64_t MaxStreamedZstdBytes(uint64_t content_bytes) {
  // Incompressible blocks, 1 KiB at least, are stored behind a header of three bytes. ZSTD_compressBound has an upper limit.
  constexpr uint64_t kFrameHeaderBytes = 64;
  return content_bytes + content_bytes / 256 + kFrameHeaderBytes;
}

}  // namespace xorbit
