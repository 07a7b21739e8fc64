// Changes a checkpoint's files in place so that, whenever the process is killed or the power fails, the next run can make them
// whole again: all old or all new, never XORed twice (docs/design/crash-safety.md has the argument).
//
//   Open: lock -> Recover what was left behind -> Begin: a journal -> the caller adds every change -> Commit:
//   seal the journal | fence: from here on the journal can finish or undo the change | store -> fsync -> remove the journal
#pragma once

#include <span>
#include <vector>

#include "base/file.h"
#include "receive/journal_reader.h"
#include "receive/journal_state.h"
#include "receive/journal_writer.h"
#include "receive/replay.h"
#include "receive/target_files.h"

namespace xorbit {

enum class RecoveryDirection {
  kRedo,  // finish the interrupted change
  kUndo,  // take it back
};

// An interrupted change that Recover() brought to one end.
struct RecoveredChange {
  JournalIdentity identity;
  uint64_t change_count = 0;
};

// Holds the folder's lock while it lives. Movable; one thread at a time, except for the writer's Add().
class FileTarget {
 public:
  // kRefused if another process holds the lock. Creates <folder>/.xorbit; if it was not there and no journal is left in it at
  // the end, it goes with the target. Reads, patches and writes on up to `threads` threads. `ops` must outlive the target.
  static Result<FileTarget> Open(FileOps& ops, const fs::path& checkpoint, int threads);
  FileTarget(FileTarget&&) = default;
  FileTarget& operator=(FileTarget&&) = delete;
  ~FileTarget();

  // kRefused if the folder was moved or replaced, so that others who go by its name do not find it locked.
  Status CheckPlace() const;

  // Brings every change that was interrupted to one end and removes its journal; empty if there was none. On an error the
  // journals that are left can be recovered by a later call, in either direction. kRefused, with nothing touched, if a file is
  // neither the old nor the new one nor a mixture of them; kCorrupt if a journal is damaged.
  Result<std::vector<RecoveredChange>> Recover(RecoveryDirection direction);

  // A journal to add every change to, for files of the checkpoint's folder; PatchBlock::file_index counts in `files`. Give it
  // to Commit(), or destroy it to change nothing. kRefused while a journal waits for Recover(). One writer at a time.
  Result<std::unique_ptr<JournalWriter>> Begin(std::span<const TargetFile> files, const JournalIdentity& identity);

  // Makes the changes. On success they are on disk and no journal is left. An error says which of these holds: nothing was
  // changed (also after a roll-back); the change is complete but its journal could not be removed; or the files may be half
  // changed, and the journal that stays can finish or undo that.
  Status Commit(std::unique_ptr<JournalWriter> writer);

 private:
  // A sealed journal with its files open; the journal's bytes are the map's.
  struct Loaded {
    MappedFile map;
    Journal journal;
    JournalFds fds;
    std::vector<BlockRange> stretches;
  };

  FileTarget(FileOps& ops, JournalPlace place, FileLock lock, bool made_control, int threads)
      : ops_(&ops), place_(std::move(place)), lock_(std::move(lock)), made_control_(made_control), threads_(threads) {}
  Result<Loaded> Load(const fs::path& journal) const;
  Result<RecoveredChange> RecoverOne(const fs::path& journal, RecoveryDirection direction);
  Status SyncName(const fs::path& journal);
  Status SealAndStore(const fs::path& temporary);
  Status Replay(const Loaded& loaded, PatchRule rule, std::span<const BlockRange> stretches,
                std::vector<BlockRange>* written = nullptr);
  Status RollBack(const Loaded* loaded, std::span<const BlockRange> written, const Status& cause);
  Status Remove(const fs::path& journal);

  FileOps* ops_;
  JournalPlace place_;
  FileLock lock_;
  bool made_control_;  // whether <folder>/.xorbit is ours to remove
  int threads_;
};

}  // namespace xorbit
