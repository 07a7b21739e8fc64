// The outer stage of the "+zstd" codecs, undone chunk by chunk as frames ask for their bytes.
//
// Forty bytes of Zstd may stand for a chunk of 1 MiB, so undoing a whole segment would let a small hostile payload take memory
// of the layout's size. A chunk serves some twenty frames in a row: a few kept chunks make on-demand as cheap as all at once.
#pragma once

#include <cstdint>
#include <list>
#include <memory>
#include <mutex>

#include "base/bytes.h"

namespace xorbit {

// Chunks that were undone last, of all segments together: what bounds memory is their number, not who asks. Thread-safe.
class ChunkCache {
 public:
  explicit ChunkCache(size_t capacity) : capacity_(capacity) {}
  ChunkCache(const ChunkCache&) = delete;
  ChunkCache& operator=(const ChunkCache&) = delete;
  // The process's: 64 MiB hold what 64 streams read at once, such as 16 threads that fold 4 deltas.
  static ChunkCache& Shared();

  struct Chunk {
    std::mutex mutex;  // guards bytes; held while they are made, so that nobody makes them twice
    Buffer bytes;      // empty until somebody has undone the chunk
  };
  // Chunk `index` of `owner`, perhaps still empty. The one used longest ago makes room; it lives on while it is borrowed.
  std::shared_ptr<Chunk> Borrow(uint64_t owner, uint64_t index);
  void Forget(uint64_t owner);
  size_t size() const;

 private:
  struct Entry {
    uint64_t owner;
    uint64_t index;
    std::shared_ptr<Chunk> chunk;
  };

  const size_t capacity_;
  mutable std::mutex mutex_;
  std::list<Entry> entries_;  // guarded by mutex_; used last comes first
};

// The inner stream of one segment. Thread-safe.
class OuterChunks {
 public:
  // kCorrupt unless the records tile body and stream exactly; undoes nothing yet. Records, body and cache must outlive it.
  // `inner_bytes` is what the frames need.
  static Result<std::unique_ptr<OuterChunks>> Open(ConstBytes records, ConstBytes body, uint64_t inner_bytes,
                                                   ChunkCache* cache = &ChunkCache::Shared());
  OuterChunks(const OuterChunks&) = delete;
  OuterChunks& operator=(const OuterChunks&) = delete;
  ~OuterChunks() { cache_->Forget(id_); }

  // Copies `byte_count` bytes of the stream from `offset`, which whoever calls has bounded by inner_bytes. kCorrupt if a chunk
  // is not what its record says.
  Status Read(uint64_t offset, uint64_t byte_count, uint8_t* target) const;

 private:
  OuterChunks(ConstBytes records, ConstBytes body, ChunkCache* cache);

  ConstBytes records_;
  ConstBytes body_;
  ChunkCache* cache_;
  uint64_t id_;  // in the cache; never used twice
};

}  // namespace xorbit
