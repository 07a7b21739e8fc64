#include "receive/file_target.h"

#include <algorithm>

namespace xorbit {
namespace {

Status WithNote(const Status& status, std::string_view note) {
  return {status.code(), status.message() + "; " + std::string(note)};
}

constexpr std::string_view kNothingChanged = "nothing was changed";

Status DamagedError(const fs::path& journal, const Status& cause) {
  return CorruptError(
      "journal '" + journal.string() + "' is damaged (" + cause.message() +
      "), so an interrupted change can be neither finished nor undone; if `xorbit verify` finds the checkpoint to "
      "be base or target, remove the journal, else restore the checkpoint");
}

}  // namespace

Result<FileTarget> FileTarget::Open(FileOps& ops, const fs::path& checkpoint, int threads) {
  XORBIT_ASSIGN_OR_RETURN(JournalPlace place, FindJournalPlace(checkpoint));
  for (;;) {
    const Status made = ops.MakeFolder(place.control);
    if (!made.ok() && made.code() != Code::kExists) return made;
    Result<FileLock> lock = FileLock::TryAcquire(place.lock());
    if (lock.status().code() == Code::kNotFound) continue;  // the holder before us has just removed the folder
    if (!lock.ok()) return lock.status();
    return FileTarget(ops, std::move(place), std::move(lock).value(), made.ok(), threads);
  }
}

Status FileTarget::CheckPlace() const {
  if (lock_.IsNamed()) return {};
  return RefusedError("'" + place_.folder.string() + "' was moved or replaced since it was locked; start again");
}

// Only while the lock is held: nobody else can be about to write a journal.
FileTarget::~FileTarget() {
  if (!lock_.held() || !made_control_) return;
  std::error_code error;
  fs::directory_iterator entry(place_.control, error);
  for (; !error && entry != fs::directory_iterator(); entry.increment(error)) {
    if (entry->path() != place_.lock()) return;
  }
  if (error || !lock_.RemoveFile().ok()) return;
  fs::remove(place_.control, error);  // fails if another process has made its lock there by now
}

Result<std::vector<RecoveredChange>> FileTarget::Recover(RecoveryDirection direction) {
  XORBIT_ASSIGN_OR_RETURN(const std::vector<fs::path> unsealed, FindJournals(place_, /*unsealed=*/true));
  for (const fs::path& temporary : unsealed) XORBIT_RETURN_IF_ERROR(ops_->Unlink(temporary));
  XORBIT_ASSIGN_OR_RETURN(const std::vector<fs::path> sealed, FindJournals(place_, /*unsealed=*/false));
  std::vector<RecoveredChange> changes;
  for (const fs::path& journal : sealed) {
    XORBIT_ASSIGN_OR_RETURN(const RecoveredChange change, RecoverOne(journal, direction));
    changes.push_back(change);
  }
  return changes;
}

Result<RecoveredChange> FileTarget::RecoverOne(const fs::path& journal, RecoveryDirection direction) {
  Result<Loaded> loaded = Load(journal);
  if (!loaded.ok()) return loaded.status();
  const Journal& view = loaded->journal;
  const Status check = ReplayJournal(*ops_, view, loaded->fds, PatchRule::kCheckOldOrNew, loaded->stretches, threads_);
  if (!check.ok()) {
    return WithNote(check, "so the interrupted change cannot be finished or undone; restore the file, or remove '" +
                               journal.string() + "' to keep it as it is");
  }
  // The process that was killed may not have come to fsync the journal's name: before more is stored, it must be on disk.
  XORBIT_RETURN_IF_ERROR(SyncName(journal));
  const PatchRule rule = direction == RecoveryDirection::kRedo ? PatchRule::kRedo : PatchRule::kUndo;
  const Status status = Replay(*loaded, rule, loaded->stretches);
  if (!status.ok()) return WithNote(status, "journal '" + journal.string() + "' stays, to be recovered by another run");
  XORBIT_RETURN_IF_ERROR(Remove(journal));
  return RecoveredChange{view.head().identity, view.change_count()};
}

Result<std::unique_ptr<JournalWriter>> FileTarget::Begin(std::span<const TargetFile> files, const JournalIdentity& identity) {
  XORBIT_ASSIGN_OR_RETURN(const std::vector<fs::path> sealed, FindJournals(place_, /*unsealed=*/false));
  if (!sealed.empty()) {
    return RefusedError("an interrupted change waits in '" + sealed.front().string() + "'; finish or undo it first");
  }
  const fs::path temporary = JournalPlace::TemporaryOf(place_.journal);
  const Status removed = ops_->Unlink(temporary);
  if (!removed.ok() && removed.code() != Code::kNotFound) return removed;
  JournalHead head;
  head.identity = identity;
  for (const TargetFile& file : files) {
    XORBIT_RETURN_IF_ERROR(CheckSoleName(place_.folder / file.name));
    XORBIT_ASSIGN_OR_RETURN(JournalFile description, DescribeFile(place_.folder, file));
    head.files.push_back(std::move(description));
  }
  return JournalWriter::Create(*ops_, temporary, std::move(head));
}

Status FileTarget::Commit(std::unique_ptr<JournalWriter> writer) {
  if (writer->change_count() == 0) return {};
  if (const Status finished = writer->Finish(); !finished.ok()) return WithNote(finished, kNothingChanged);
  return SealAndStore(writer->path());
}

Status FileTarget::SealAndStore(const fs::path& temporary) {
  if (const Status renamed = ops_->Rename(temporary, place_.journal); !renamed.ok()) {
    static_cast<void>(ops_->Unlink(temporary));  // if it stays, it is unsealed: the next run removes it
    return WithNote(renamed, kNothingChanged);
  }
  if (const Status synced = SyncName(place_.journal); !synced.ok()) return RollBack(nullptr, {}, synced);
  const Result<Loaded> loaded = Load(place_.journal);
  if (!loaded.ok()) return RollBack(nullptr, {}, loaded.status());

  // Fence: the journal is whole and on disk under its name. From here on it alone can bring the files to either end.
  std::vector<BlockRange> written;
  const Status stored = Replay(*loaded, PatchRule::kRedoFromOld, loaded->stretches, &written);
  if (!stored.ok()) return RollBack(&*loaded, written, stored);

  // Fence: every new value is on disk.
  return Remove(place_.journal);
}

// On success the values are on disk.
Status FileTarget::Replay(const Loaded& loaded, PatchRule rule, std::span<const BlockRange> stretches,
                          std::vector<BlockRange>* written) {
  XORBIT_RETURN_IF_ERROR(ReplayJournal(*ops_, loaded.journal, loaded.fds, rule, stretches, threads_, written));
  return SyncJournalFiles(*ops_, loaded.journal, loaded.fds);
}

// Takes back the blocks that may have been written, if any. Returns the cause, with what became of the files.
Status FileTarget::RollBack(const Loaded* loaded, std::span<const BlockRange> written, const Status& cause) {
  const std::string stays = "journal '" + place_.journal.string() + "' stays: the next run can finish or undo the change";
  const bool any =
      std::any_of(written.begin(), written.end(), [](const BlockRange& range) { return range.first < range.last; });
  if (any) {
    const Status undone = Replay(*loaded, PatchRule::kUndo, written);
    if (!undone.ok())
      return WithNote(cause, "rolling back failed as well (" + undone.message() + "), files may be half changed, " + stays);
  }
  if (const Status unlinked = ops_->Unlink(place_.journal); !unlinked.ok()) {
    return WithNote(cause, "nothing was changed, but " + unlinked.message() + ", so " + stays);
  }
  // Should the name come back after a power cut, the journal still fits: it is recovered like any other.
  static_cast<void>(ops_->SyncFolder(place_.control));
  return WithNote(cause, kNothingChanged);
}

// Only when every value that the journal would store is on disk.
Status FileTarget::Remove(const fs::path& journal) {
  Status status = ops_->Unlink(journal);
  if (status.ok()) status = ops_->SyncFolder(place_.control);
  if (status.ok()) return {};
  return WithNote(status, "the files are whole and on disk, but their journal may still be there; the next run removes it");
}

Result<FileTarget::Loaded> FileTarget::Load(const fs::path& journal) const {
  XORBIT_ASSIGN_OR_RETURN(MappedFile map, MappedFile::Open(journal));
  Result<Journal> parsed = Journal::Parse(map.bytes());
  if (parsed.status().code() == Code::kCorrupt) return DamagedError(journal, parsed.status());
  if (!parsed.ok()) return parsed.status().WithContext("'" + journal.string() + "'");
  XORBIT_ASSIGN_OR_RETURN(JournalFds fds, OpenJournalFiles(*ops_, *parsed, place_.folder));
  std::vector<BlockRange> stretches = PlanStretches(*parsed);
  return Loaded{std::move(map), std::move(*parsed), std::move(fds), std::move(stretches)};
}

// Makes the journal findable after a power cut: its bytes, its name, and the name of the folder that holds it.
Status FileTarget::SyncName(const fs::path& journal) {
  {
    XORBIT_ASSIGN_OR_RETURN(const UniqueFd fd, ops_->OpenForWrite(journal));
    XORBIT_RETURN_IF_ERROR(ops_->Sync(fd).WithContext("'" + journal.string() + "'"));
  }
  XORBIT_RETURN_IF_ERROR(ops_->SyncFolder(place_.control));
  return ops_->SyncFolder(place_.folder);
}

}  // namespace xorbit
