#include "codec/outer_chunks.h"

#include <algorithm>
#include <atomic>
#include <string>

#include "base/checked_math.h"
#include "codec/mask_format.h"
#include "codec/zstd_frame.h"

namespace xorbit {
namespace {

OuterRecord RecordAt(ConstBytes records, uint64_t index) {
  return LoadLe<OuterRecord>(records.data() + index * sizeof(OuterRecord));
}

Status CheckTiling(ConstBytes records, uint64_t body_bytes, uint64_t inner_bytes) {
  if (records.size() % sizeof(OuterRecord) != 0) return CorruptError("outer records do not fill their section");
  const uint64_t count = records.size() / sizeof(OuterRecord);
  if (count != DivideRoundUp(inner_bytes, kOuterChunkBytes)) {
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

ChunkCache& ChunkCache::Shared() {
  static ChunkCache cache(64);
  return cache;
}

std::shared_ptr<ChunkCache::Chunk> ChunkCache::Borrow(uint64_t owner, uint64_t index) {
  const std::lock_guard lock(mutex_);
  const auto found = std::find_if(entries_.begin(), entries_.end(),
                                  [&](const Entry& entry) { return entry.owner == owner && entry.index == index; });
  if (found != entries_.end()) {
    entries_.splice(entries_.begin(), entries_, found);
  } else {
    entries_.push_front({owner, index, std::make_shared<Chunk>()});
    if (entries_.size() > capacity_) entries_.pop_back();
  }
  return entries_.front().chunk;
}

void ChunkCache::Forget(uint64_t owner) {
  const std::lock_guard lock(mutex_);
  entries_.remove_if([&](const Entry& entry) { return entry.owner == owner; });
}

size_t ChunkCache::size() const {
  const std::lock_guard lock(mutex_);
  return entries_.size();
}

OuterChunks::OuterChunks(ConstBytes records, ConstBytes body, ChunkCache* cache)
    : records_(records), body_(body), cache_(cache) {
  static std::atomic<uint64_t> next_id{0};
  id_ = next_id.fetch_add(1, std::memory_order_relaxed);
}

Result<std::unique_ptr<OuterChunks>> OuterChunks::Open(ConstBytes records, ConstBytes body, uint64_t inner_bytes,
                                                       ChunkCache* cache) {
  XORBIT_RETURN_IF_ERROR(CheckTiling(records, body.size(), inner_bytes));
  return std::unique_ptr<OuterChunks>(new OuterChunks(records, body, cache));
}

Status OuterChunks::Read(uint64_t offset, uint64_t byte_count, uint8_t* target) const {
  while (byte_count > 0) {
    const uint64_t index = offset / kOuterChunkBytes;
    const OuterRecord record = RecordAt(records_, index);
    const uint64_t within = offset % kOuterChunkBytes;
    const uint64_t take = std::min(byte_count, record.inner_bytes - within);
    const std::shared_ptr<ChunkCache::Chunk> chunk = cache_->Borrow(id_, index);
    const std::lock_guard lock(chunk->mutex);
    if (chunk->bytes.empty()) {
      Buffer undone(record.inner_bytes);
      XORBIT_RETURN_IF_ERROR(DecompressZstdFrame(body_.subspan(record.offset, record.encoded_bytes), undone)
                                 .WithContext("outer chunk " + std::to_string(index)));
      chunk->bytes = std::move(undone);
    }
    std::copy_n(chunk->bytes.data() + within, take, target);
    offset += take;
    target += take;
    byte_count -= take;
  }
  return {};
}

}  // namespace xorbit
