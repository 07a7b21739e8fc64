// Replays a journal onto its files. Every store is absolute, so a replay may be cut anywhere and be done again, in either
// direction. Pages that look right are written all the same: after a failed fsync the page cache shows bytes that the disk
// never got, and only a new write makes the kernel try again.
#pragma once

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

// Applies `rule` to the journal's blocks [0, block_count). On return *reached, if given, is the number of blocks, from the
// first, that may have been written to, whatever became of the rest. kCheckOldOrNew reads only.
Status ReplayJournal(FileOps& ops, const Journal& journal, const JournalFds& fds, PatchRule rule, uint64_t block_count,
                     uint64_t* reached = nullptr);

// fsyncs every open file.
Status SyncJournalFiles(FileOps& ops, const Journal& journal, const JournalFds& fds);

}  // namespace xorbit
