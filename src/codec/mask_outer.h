// The outer stage of the "+zstd" codecs: the inner stream in chunks of 1 MiB, each an independent Zstd frame.
//
// Chunks do not follow frames: an inner frame of a sparse mask is some 50 KB of Snappy or 10 KB of LZ4, and one chunk per frame
// would cost a tenth more. They are independent so that both ends can work on many at once. outer_chunks.h
// is the way back.
#pragma once

#include <cstdint>
#include <vector>

#include "base/bytes.h"

namespace xorbit {

// Takes the inner stream piece by piece and holds less than a chunk of it back. Not thread-safe; uses threads of its own.
class OuterCompressor {
 public:
  OuterCompressor(int zstd_level, int threads) : zstd_level_(zstd_level), threads_(threads) {}

  // Compresses all whole chunks that the pieces so far fill. The bytes depend on the concatenation only.
  Status Add(std::vector<Buffer> pieces);
  // The same for one piece, of which nothing is copied but the start of a chunk at its end.
  Status AddBytes(ConstBytes piece);
  // Compresses the rest. Call once, last.
  Status Finish();

  Buffer TakeRecords() { return std::move(records_); }             // OuterRecord each
  std::vector<Buffer> TakeChunks() { return std::move(chunks_); }  // one Zstd frame each

 private:
  Status Compress(ConstBytes stream);  // from a chunk's start

  int zstd_level_;
  int threads_;
  Buffer pending_;  // less than a chunk between calls
  Buffer records_;
  std::vector<Buffer> chunks_;
  uint64_t body_bytes_ = 0;
};

}  // namespace xorbit
