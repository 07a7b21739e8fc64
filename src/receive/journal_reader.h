// Reads a journal that may be anything: torn, damaged, or made up. Nothing of it is used before all of it was found right.
#pragma once

#include <vector>

#include "base/bytes.h"
#include "receive/journal_format.h"
#include "receive/patch.h"

namespace xorbit {

// A validated view of a journal's bytes, which must outlive it. Immutable, safe to share between threads.
class Journal {
 public:
  // kCorrupt unless checksum, counts, sizes, names, padding and every block are right; kUnsupported for a later version.
  // `bytes` starts at a multiple of 8. Memory: 24 bytes a block, less than the block itself takes.
  static Result<Journal> Parse(ConstBytes bytes);

  const JournalHead& head() const { return head_; }
  const std::vector<JournalFile>& files() const { return head_.files; }
  uint64_t block_count() const { return blocks_.size(); }
  uint64_t change_count() const { return change_count_; }

  // Ordered by file, then by first touched byte, whatever the order in which blocks were written: neighbours in the file are
  // neighbours here, so that they can be read and written together.
  PatchBlock block(uint64_t index) const { return BlockAt(blocks_[index].journal_offset); }

 private:
  struct BlockPlace {
    uint64_t begin;  // first touched byte of the file
    uint64_t journal_offset;
    uint32_t file_index;
  };

  Status ParseHead();
  Status ParseBlocks(uint64_t begin, const JournalTrailerRecord& trailer);
  PatchBlock BlockAt(uint64_t journal_offset) const;

  ConstBytes bytes_;
  JournalHead head_;
  std::vector<BlockPlace> blocks_;
  uint64_t change_count_ = 0;
};

}  // namespace xorbit
