#include "codec/mask_outer.h"

#include <algorithm>
#include <new>
#include <string>

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
  const uint64_t chunk_count = (byte_count + kOuterChunkBytes - 1) / kOuterChunkBytes;
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

namespace {

OuterRecord RecordAt(ConstBytes records, uint64_t index) {
  return LoadLe<OuterRecord>(records.data() + index * sizeof(OuterRecord));
}

Status CheckTiling(ConstBytes records, uint64_t body_bytes, uint64_t inner_bytes) {
  if (records.size() % sizeof(OuterRecord) != 0) return CorruptError("outer records do not fill their section");
  const uint64_t count = records.size() / sizeof(OuterRecord);
  if (count != (inner_bytes + kOuterChunkBytes - 1) / kOuterChunkBytes) {
    return CorruptError("the number of outer chunks does not fit the frames");
  }
  uint64_t body_at = 0;
  for (uint64_t i = 0; i < count; ++i) {
    const OuterRecord record = RecordAt(records, i);
    const auto fail = [&](const char* why) { return CorruptError("outer chunk " + std::to_string(i) + " " + why); };
    if (record.inner_bytes != std::min(kOuterChunkBytes, inner_bytes - i * kOuterChunkBytes)) return fail("has a wrong length");
    if (record.offset != body_at) return fail("does not follow the one before");
    if (record.encoded_bytes > body_bytes - body_at) return fail("reaches past the body");
    body_at += record.encoded_bytes;
  }
  if (body_at != body_bytes) return CorruptError("the outer chunks do not fill the body");
  return {};
}

}  // namespace

Result<InnerStream> UndoOuterChunks(ConstBytes records, ConstBytes body, uint64_t inner_bytes, int threads) {
  XORBIT_RETURN_IF_ERROR(CheckTiling(records, body.size(), inner_bytes));
  InnerStream stream;
  try {
    stream.memory = std::make_unique_for_overwrite<uint8_t[]>(inner_bytes);
  } catch (const std::bad_alloc&) {
    return IoError("no memory for " + std::to_string(inner_bytes) + " bytes of inner frames");
  }
  stream.bytes = {stream.memory.get(), inner_bytes};
  XORBIT_RETURN_IF_ERROR(ParallelFor(threads, records.size() / sizeof(OuterRecord), [&](uint64_t index) {
    const OuterRecord record = RecordAt(records, index);
    return DecompressZstdFrame(body.subspan(record.offset, record.encoded_bytes),
                               {stream.memory.get() + index * kOuterChunkBytes, record.inner_bytes})
        .WithContext("outer chunk " + std::to_string(index));
  }));
  return stream;
}

}  // namespace xorbit
