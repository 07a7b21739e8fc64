#include "receive/replay.h"

#include <set>

#include "receive/patch_check.h"
#include "receive/target_files.h"

namespace xorbit {
namespace {

Status CheckIdentity(const JournalFile& then, const fs::path& folder) {
  const Result<JournalFile> now = DescribeFile(folder, {then.name, then.header_bytes});
  // A file that became shorter than its header is another file too.
  const bool readable = now.ok() || now.status().code() == Code::kCorrupt;
  if (!readable) return now.status();
  if (now.ok() && now->file_bytes == then.file_bytes && now->header_sha256 == then.header_sha256) return {};
  const bool replaced = now.ok() && now->inode != then.inode;
  return RefusedError("'" + (folder / then.name).string() + "' was " + (replaced ? "replaced" : "changed") +
                      " since the change was journalled");
}

// Blocks [first, last) of one file, all within one window's reach.
struct BlockRange {
  uint64_t first;
  uint64_t last;
};

BlockRange GatherWindow(const Journal& journal, uint64_t first, uint64_t block_count, PatchWindow& window) {
  const PatchBlock lead = journal.block(first);
  window.Begin(PatchBegin(lead));
  window.Mark(lead);
  uint64_t last = first + 1;
  for (; last < block_count; ++last) {
    const PatchBlock block = journal.block(last);
    if (block.file_index != lead.file_index || !window.Fits(block)) break;
    window.Mark(block);
  }
  return {first, last};
}

}  // namespace

Result<JournalFds> OpenJournalFiles(FileOps& ops, const Journal& journal, const fs::path& folder) {
  std::set<uint32_t> touched;
  for (uint64_t i = 0; i < journal.block_count(); ++i) touched.insert(journal.block(i).file_index);
  JournalFds fds(journal.files().size());
  for (const uint32_t index : touched) {
    const JournalFile& file = journal.files()[index];
    XORBIT_RETURN_IF_ERROR(CheckSoleName(folder / file.name));
    XORBIT_RETURN_IF_ERROR(CheckIdentity(file, folder));
    XORBIT_ASSIGN_OR_RETURN(fds[index], ops.OpenForWrite(folder / file.name));
  }
  return fds;
}

Status ReplayJournal(FileOps& ops, const Journal& journal, const JournalFds& fds, PatchRule rule, uint64_t block_count,
                     uint64_t* reached) {
  uint64_t ignored = 0;
  uint64_t& written = reached != nullptr ? *reached : ignored;
  written = 0;
  PatchWindow window;
  for (uint64_t next = 0; next < block_count;) {
    const BlockRange range = GatherWindow(journal, next, block_count, window);
    const uint32_t file_index = journal.block(range.first).file_index;
    const UniqueFd& fd = fds[file_index];
    Status status = window.Read(fd);
    for (uint64_t i = range.first; i < range.last && status.ok(); ++i) status = window.Patch(journal.block(i), rule);
    if (status.ok() && rule != PatchRule::kCheckOldOrNew) {
      written = range.last;
      status = window.Write(ops, fd);
    }
    XORBIT_RETURN_IF_ERROR(status.WithContext("'" + journal.files()[file_index].name + "'"));
    next = range.last;
  }
  return {};
}

Status SyncJournalFiles(FileOps& ops, const Journal& journal, const JournalFds& fds) {
  for (size_t i = 0; i < fds.size(); ++i) {
    if (fds[i].valid()) XORBIT_RETURN_IF_ERROR(ops.Sync(fds[i]).WithContext("'" + journal.files()[i].name + "'"));
  }
  return {};
}

}  // namespace xorbit
