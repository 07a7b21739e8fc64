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
  return Compress(pending_.size() / kOuterChunkBytes * kOuterChunkBytes);
}

Status OuterCompressor::Finish() { return Compress(pending_.size()); }

Status OuterCompressor::Compress(uint64_t byte_count) {
  const uint64_t chunk_count = DivideRoundUp(byte_count, kOuterChunkBytes);
  const uint64_t first_chunk = chunks_.size();
  chunks_.resize(first_chunk + chunk_count);
  const auto chunk_at = [&](uint64_t index) {
    const uint64_t begin = index * kOuterChunkBytes;
    return ConstBytes(pending_).subspan(begin, std::min(kOuterChunkBytes, byte_count - begin));
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
  pending_.erase(pending_.begin(), pending_.begin() + static_cast<ptrdiff_t>(byte_count));
  return {};
}

}  // namespace xorbit
