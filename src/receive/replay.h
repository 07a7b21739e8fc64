// Replays a journal onto its files. Every store is absolute, so a replay may be cut anywhere and be done again, in either
// direction. Pages that look right are written all the same: after a failed fsync the page cache shows bytes that the disk
// never got, and only a new write makes the kernel try again.
//
// A journal is cut into stretches that no byte joins, and these are replayed side by side: one thread reads and patches while
// another writes, and the disk starts on what has been written instead of waiting for the fsync.
#pragma once

#include <span>
#include <vector>

#include "base/file.h"
#include "receive/journal_reader.h"
#include "receive/patch_window.h"

namespace xorbit {

// The files that a journal has blocks for, open for reading and writing, indexed like Journal::files(); the others stay closed.
using JournalFds = std::vector<UniqueFd>;

// Opens them. kRefused, with the file's name, if one is a link (its bytes belong to other names as well), or is no longer the
// file that the journal knows: other size or other safetensors header. `folder` is the checkpoint's.
Result<JournalFds> OpenJournalFiles(FileOps& ops, const Journal& journal, const fs::path& folder);

// Blocks [first, last), counted as in Journal::block.
struct BlockRange {
  uint64_t first = 0;
  uint64_t last = 0;
};

// All blocks, cut into stretches of some MiB of one file each. Between the first and the last touched byte of a stretch no
// other has any.
std::vector<BlockRange> PlanStretches(const Journal& journal);

// Applies `rule` to the blocks of `stretches`, which are PlanStretches' or begin like them, on up to `threads` threads. On
// return (*written)[i], if given, holds those blocks of stretch i, from its first, that may have been written to; no other was,
// whatever happened. kCheckOldOrNew reads only.
Status ReplayJournal(FileOps& ops, const Journal& journal, const JournalFds& fds, PatchRule rule,
                     std::span<const BlockRange> stretches, int threads, std::vector<BlockRange>* written = nullptr);

// fsyncs every open file.
Status SyncJournalFiles(FileOps& ops, const Journal& journal, const JournalFds& fds);

}  // namespace xorbit
