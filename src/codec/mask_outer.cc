#include "codec/mask_outer.h"

#include <algorithm>
#include <memory>

#include "base/checked_math.h"
#include "base/parallel.h"
#include "codec/mask_format.h"
#include "codec/zstd_frame.h"

namespace xorbit {

Status OuterCompressor::Add(std::vector<Buffer> pieces) {
  for (Buffer& piece : pieces) {
    AppendBytes(pending_, piece);
    piece = {};
  }
  const uint64_t byte_count = pending_.size() / kOuterChunkBytes * kOuterChunkBytes;
  XORBIT_RETURN_IF_ERROR(Compress(ConstBytes(pending_).first(byte_count)));
  pending_.erase(pending_.begin(), pending_.begin() + static_cast<ptrdiff_t>(byte_count));
  return {};
}

Status OuterCompressor::AddBytes(ConstBytes piece) {
  if (!pending_.empty()) {
    const uint64_t missing = std::min<uint64_t>(kOuterChunkBytes - pending_.size(), piece.size());
    AppendBytes(pending_, piece.first(missing));
    piece = piece.subspan(missing);
    if (pending_.size() < kOuterChunkBytes) return {};
    XORBIT_RETURN_IF_ERROR(Compress(pending_));
    pending_.clear();
  }
  const uint64_t byte_count = piece.size() / kOuterChunkBytes * kOuterChunkBytes;
  XORBIT_RETURN_IF_ERROR(Compress(piece.first(byte_count)));
  AppendBytes(pending_, piece.subspan(byte_count));
  return {};
}

Status OuterCompressor::Finish() { return Compress(pending_); }

Status OuterCompressor::Compress(ConstBytes stream) {
  const uint64_t chunk_count = DivideRoundUp(stream.size(), kOuterChunkBytes);
  const uint64_t first_chunk = chunks_.size();
  chunks_.resize(first_chunk + chunk_count);
  const auto chunk_at = [&](uint64_t index) {
    const uint64_t begin = index * kOuterChunkBytes;
    return stream.subspan(begin, std::min(kOuterChunkBytes, stream.size() - begin));
  };
  XORBIT_RETURN_IF_ERROR(ParallelFor(threads_, chunk_count, [&](uint64_t index) -> Status {
    const ConstBytes content = chunk_at(index);
    const auto room = std::make_unique_for_overwrite<uint8_t[]>(MaxZstdFrameBytes(content.size()));
    XORBIT_ASSIGN_OR_RETURN(const uint64_t encoded_bytes, CompressZstdFrame(content, zstd_level_, room.get()));
    chunks_[first_chunk + index].assign(room.get(), room.get() + encoded_bytes);
    return {};
  }));
  for (uint64_t index = 0; index < chunk_count; ++index) {
    const uint64_t encoded_bytes = chunks_[first_chunk + index].size();
    const OuterRecord record = {body_bytes_, static_cast<uint32_t>(encoded_bytes),
                                static_cast<uint32_t>(chunk_at(index).size())};
    AppendLe(records_, record);
    body_bytes_ += encoded_bytes;
  }
  return {};
}

}  // namespace xorbit
