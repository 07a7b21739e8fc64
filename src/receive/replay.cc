#include "receive/replay.h"

#include <algorithm>
#include <set>

#include "base/object_pool.h"
#include "base/parallel.h"
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

// So much that asking the disk to begin pays, so little that several are in flight.
constexpr uint64_t kStretchBytes = uint64_t{8} << 20;

// Marks the blocks from `first` on that fit one window, and returns them.
BlockRange GatherWindow(const Journal& journal, BlockRange rest, PatchWindow& window) {
  window.Begin(PatchBegin(journal.block(rest.first)));
  uint64_t last = rest.first;
  for (; last < rest.last; ++last) {
    const PatchBlock block = journal.block(last);
    if (!window.Fits(block)) break;
    window.Mark(block);
  }
  return {rest.first, last};
}

// One stretch, window by window. *written counts as in ReplayJournal.
Status ReplayStretch(FileOps& ops, const Journal& journal, const UniqueFd& fd, PatchRule rule, BlockRange stretch,
                     PatchWindow& window, BlockRange* written) {
  uint64_t end = 0;
  for (uint64_t next = stretch.first; next < stretch.last;) {
    const BlockRange range = GatherWindow(journal, {next, stretch.last}, window);
    XORBIT_RETURN_IF_ERROR(window.Read(fd));
    for (uint64_t i = range.first; i < range.last; ++i) XORBIT_RETURN_IF_ERROR(window.Patch(journal.block(i), rule));
    if (rule != PatchRule::kCheckOldOrNew) {
      written->last = range.last;
      XORBIT_RETURN_IF_ERROR(window.Write(ops, fd));
    }
    end = std::max(end, window.end());
    next = range.last;
  }
  if (rule != PatchRule::kCheckOldOrNew) {
    const uint64_t begin = PatchBegin(journal.block(stretch.first));
    ops.StartWriteBack(fd, begin, end - begin);
  }
  return {};
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

std::vector<BlockRange> PlanStretches(const Journal& journal) {
  std::vector<BlockRange> stretches;
  uint32_t file_index = 0;
  uint64_t begin = 0;
  uint64_t end = 0;  // of all blocks of the stretch: the last may begin later and end earlier than one before
  for (uint64_t i = 0; i < journal.block_count(); ++i) {
    const PatchBlock block = journal.block(i);
    const bool joined = PatchBegin(block) < end || PatchBegin(block) - begin < kStretchBytes;
    if (stretches.empty() || block.file_index != file_index || !joined) {
      stretches.push_back({i, i});
      file_index = block.file_index;
      begin = PatchBegin(block);
      end = 0;
    }
    stretches.back().last = i + 1;
    end = std::max(end, PatchEnd(block));
  }
  return stretches;
}

Status ReplayJournal(FileOps& ops, const Journal& journal, const JournalFds& fds, PatchRule rule,
                     std::span<const BlockRange> stretches, int threads, std::vector<BlockRange>* written) {
  std::vector<BlockRange> reached;
  for (const BlockRange& stretch : stretches) reached.push_back({stretch.first, stretch.first});
  ObjectPool<PatchWindow> windows([] { return std::make_unique<PatchWindow>(); });
  const Status status = ParallelFor(threads, stretches.size(), [&](uint64_t s) -> Status {
    if (stretches[s].first == stretches[s].last) return {};
    const uint32_t file_index = journal.block(stretches[s].first).file_index;
    const auto window = windows.Borrow();
    return ReplayStretch(ops, journal, fds[file_index], rule, stretches[s], *window, &reached[s])
        .WithContext("'" + journal.files()[file_index].name + "'");
  });
  if (written != nullptr) *written = std::move(reached);
  return status;
}

Status SyncJournalFiles(FileOps& ops, const Journal& journal, const JournalFds& fds) {
  for (size_t i = 0; i < fds.size(); ++i) {
    if (fds[i].valid()) XORBIT_RETURN_IF_ERROR(ops.Sync(fds[i]).WithContext("'" + journal.files()[i].name + "'"));
  }
  return {};
}

}  // namespace xorbit
