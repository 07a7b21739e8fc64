// The new bytes of one tensor, from its live bytes and its entry in a weight_vNNNNNN folder, front to back.
//
// Both encodings end in the same thing, so verifying and finding changes are written once. Nothing is written anywhere: whoever
// reads the new bytes decides.
#pragma once

#include <cstdint>
#include <variant>

#include "base/bytes.h"
#include "codec/zstd_stream.h"
#include "interchange/miles_index.h"

namespace xorbit {

// Untrusted `entry`, trusted `live`; both must outlive the reader. Memory does not grow with the number of changes. Not
// thread-safe.
class PatchedTensorReader {
 public:
  // kCorrupt unless the entry is one Zstd frame whose stated content fits the encoding and the tensor's length.
  static Result<PatchedTensorReader> Open(MilesEncoding encoding, ConstBytes entry, ConstBytes live);
  // The next target.size() bytes of the new tensor; no more than are left.
  Status Next(MutableBytes target);
  // After the last byte: kCorrupt if the entry goes on.
  Status Finish();

 private:
  // Positions and values stand one after the other in the content, so each is read through a decoder of its own.
  struct Overwrite {
    ZstdFrameReader positions;
    ZstdFrameReader values;
    Buffer position_block;  // positions read ahead, and their values
    Buffer value_block;
    uint64_t unread_count = 0;  // entries not yet in the blocks
    uint64_t block_index = 0;   // first entry of the blocks that is not used yet
    uint64_t next_minimum = 0;  // what the next position must reach: one more than the last
  };

  static Result<Overwrite> OpenOverwrite(ConstBytes entry, ConstBytes live);
  static Status ReadBlock(Overwrite* overwrite, uint64_t live_bytes);
  Status NextOverwrite(Overwrite* overwrite, MutableBytes target);

  ConstBytes live_;
  uint64_t at_ = 0;
  std::variant<std::monostate, ZstdFrameReader, Overwrite> source_;
};

}  // namespace xorbit
