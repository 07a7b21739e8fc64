// One stretch of one file, read, patched in memory and written back.
//
// Changes are scattered: at 1 % of BF16 elements every page of 4 KiB has about twenty, at 0.001 % one page in fifty has any. So
// a window of up to 512 KiB gathers the patches that fall into it and moves runs of touched pages: large reads and writes where
// changes are dense, single pages where they are rare. A run is bridged over one untouched page, for a system call costs about
// as much as copying a page. What is written back starts and ends inside what the patches span.
#pragma once

#include <vector>

#include "base/file.h"
#include "receive/journal_format.h"
#include "receive/patch.h"

namespace xorbit {

// What Patch() stores, and what it demands of the value that it finds.
enum class PatchRule {
  kRedoFromOld,    // stores new; the value found must be the old one
  kRedo,           // stores new, whatever is there
  kUndo,           // stores old, whatever is there
  kCheckOldOrNew,  // stores nothing; every byte found must be the old value's or the new one's
};

// Not thread-safe. Use: Begin, Mark every patch, Read, Patch every patch, Write.
class PatchWindow {
 public:
  // The longest block there is. What was read is still in the core's cache when it is written back.
  static constexpr uint64_t kCapacityBytes = uint64_t{kPatchMaxCount} * kPatchMaxUnitBytes;

  void Begin(uint64_t begin) { begin_ = end_ = begin; }
  // False if the block ends too far from the window's begin. Blocks must have been checked and must not begin before it.
  bool Fits(const PatchBlock& block) const;
  void Mark(const PatchBlock& block);
  Status Read(const UniqueFd& fd);
  // kRefused if a value found breaks the rule; the window is then of no more use.
  Status Patch(const PatchBlock& block, PatchRule rule);
  Status Write(FileOps& ops, const UniqueFd& fd);
  uint64_t end() const { return end_; }  // after the last byte marked

 private:
  struct Run {
    uint64_t begin;
    uint64_t end;
  };
  // Cuts the marked pages into runs and clears the marks.
  void TakeRuns();
  MutableBytes BytesOf(const Run& run) { return MutableBytes(bytes_).subspan(run.begin - begin_, run.end - run.begin); }

  uint64_t begin_ = 0;  // of the file: the first byte that may be touched
  uint64_t end_ = 0;    // after the last marked byte
  std::vector<uint8_t> touched_pages_;
  std::vector<Run> runs_;
  Buffer bytes_;  // of the file from begin_; only runs are filled
};

}  // namespace xorbit
