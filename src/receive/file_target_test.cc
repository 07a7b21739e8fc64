// The file target's contract without crashes: what it changes, what it refuses, what it says.
#include "receive/file_target.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/testing/recording_file_ops.h"
#include "receive/testing/planned_change.h"

namespace xorbit {
namespace {

using testing::HasSubstr;

class FileTargetTest : public testing::Test {
 protected:
  void SetUp() override { change_.WriteBaseTo(folder()); }
  const fs::path& folder() const { return folder_.path(); }
  fs::path file(size_t index) const { return folder() / change_.files[index].name; }

  // Applies, killed at the call that removes the journal: all is stored, the journal is there.
  void ApplyWithoutUnlink() {
    RecordingFileOps counting(folder());
    ASSERT_TRUE(ApplyInPlace(counting, folder(), change_).ok());
    fs::remove_all(folder() / ".xorbit");
    change_.WriteBaseTo(folder());
    RecordingFileOps killed(folder());
    killed.FailCalls(counting.call_count() - 2, RecordingFileOps::kNever);
    const Status status = ApplyInPlace(killed, folder(), change_);
    ASSERT_EQ(status.code(), Code::kIo);
    EXPECT_THAT(status.message(), HasSubstr("whole and on disk"));
    ASSERT_TRUE(fs::exists(folder() / ".xorbit/journal"));
    ASSERT_EQ(CompareFiles(change_, folder()), FilesAre::kTarget);
  }

  JournalState State() {
    Result<JournalState> state = ReadJournalState(folder());
    EXPECT_TRUE(state.ok());
    return *state;
  }

  void Overwrite(const fs::path& path, uint64_t offset, uint8_t byte) {
    const Result<UniqueFd> fd = PosixFileOps().OpenForWrite(path);
    ASSERT_TRUE(fd.ok());
    ASSERT_TRUE(PosixFileOps().Pwrite(*fd, ConstBytes(&byte, 1), offset).ok());
  }

  TemporaryFolder folder_;
  std::mt19937_64 random_{7};
  PlannedChange change_ = PlanChange(random_, {70'000, 4'700'000, 500}, 0.01);
};

TEST_F(FileTargetTest, ChangesEveryElementAndLeavesNoJournal) {
  ASSERT_TRUE(ApplyInPlace(PosixFileOps(), folder(), change_).ok());
  EXPECT_EQ(CompareFiles(change_, folder()), FilesAre::kTarget);
  EXPECT_FALSE(fs::exists(folder() / ".xorbit/journal"));
  EXPECT_EQ(State(), JournalState::kNone);
}

TEST_F(FileTargetTest, RareAndDenseChangesAtAllUnitsArrive) {
  for (const double density : {1.0, 0.3, 0.001, 0.00001}) {
    const PlannedChange change = PlanChange(random_, {70'000, 4'700'000, 500}, density);
    change.WriteBaseTo(folder());
    ASSERT_TRUE(ApplyInPlace(PosixFileOps(), folder(), change).ok()) << density;
    EXPECT_EQ(CompareFiles(change, folder()), FilesAre::kTarget) << density;
  }
}

TEST_F(FileTargetTest, NoChangesLeaveNothing) {
  change_.patches.clear();
  ASSERT_TRUE(ApplyInPlace(PosixFileOps(), folder(), change_).ok());
  EXPECT_EQ(CompareFiles(change_, folder()), FilesAre::kBase);
  EXPECT_EQ(State(), JournalState::kNone);
}

TEST_F(FileTargetTest, ASecondStoreAfterAnUnfinishedRemovalChangesNothing) {
  ApplyWithoutUnlink();
  EXPECT_EQ(State(), JournalState::kSealed);
  const auto changes = RecoverInPlace(PosixFileOps(), folder(), RecoveryDirection::kRedo);
  ASSERT_TRUE(changes.ok()) << changes.status().message();
  ASSERT_EQ(changes->size(), 1u);
  EXPECT_EQ(changes->front().identity, change_.identity);
  EXPECT_EQ(CompareFiles(change_, folder()), FilesAre::kTarget) << "XORed twice";
  EXPECT_EQ(State(), JournalState::kNone);
}

TEST_F(FileTargetTest, UndoTakesACompleteChangeBack) {
  ApplyWithoutUnlink();
  ASSERT_TRUE(RecoverInPlace(PosixFileOps(), folder(), RecoveryDirection::kUndo).ok());
  EXPECT_EQ(CompareFiles(change_, folder()), FilesAre::kBase);
  EXPECT_EQ(State(), JournalState::kNone);
}

TEST_F(FileTargetTest, BeginWaitsForRecovery) {
  ApplyWithoutUnlink();
  Result<FileTarget> target = FileTarget::Open(PosixFileOps(), folder(), 1);
  ASSERT_TRUE(target.ok());
  EXPECT_EQ(target->Begin(change_.files, change_.identity).status().code(), Code::kRefused);
}

TEST_F(FileTargetTest, AJournalOfTheFolderConcernsItsFilesAndTheOtherWayRound) {
  ApplyWithoutUnlink();
  EXPECT_EQ(*ReadJournalState(file(0)), JournalState::kSealed);
  fs::rename(folder() / ".xorbit/journal", folder() / ".xorbit" / (change_.files[1].name + ".journal"));
  EXPECT_EQ(*ReadJournalState(file(0)), JournalState::kNone);
  EXPECT_EQ(*ReadJournalState(file(1)), JournalState::kSealed);
  EXPECT_EQ(State(), JournalState::kSealed);
  ASSERT_TRUE(RecoverInPlace(PosixFileOps(), folder(), RecoveryDirection::kUndo).ok());
  EXPECT_EQ(CompareFiles(change_, folder()), FilesAre::kBase);
}

TEST_F(FileTargetTest, ASingleFileHasItsOwnJournal) {
  std::erase_if(change_.patches, [](const OwnedPatch& patch) { return patch.file_index != 0; });
  change_.files.resize(1);
  ASSERT_TRUE(ApplyInPlace(PosixFileOps(), file(0), change_).ok());
  EXPECT_EQ(CompareFiles(change_, folder()), FilesAre::kTarget);
}

TEST_F(FileTargetTest, UnsealedJournalsMeanNothingAndAreRemoved) {
  fs::create_directory(folder() / ".xorbit");
  const fs::path temporary = folder() / ".xorbit/journal.tmp";
  ASSERT_TRUE(WriteWholeFile(PosixFileOps(), temporary, AsBytes("half of a journ")).ok());
  EXPECT_EQ(State(), JournalState::kUnsealed);
  const auto changes = RecoverInPlace(PosixFileOps(), folder(), RecoveryDirection::kRedo);
  ASSERT_TRUE(changes.ok());
  EXPECT_TRUE(changes->empty());
  EXPECT_FALSE(fs::exists(temporary));
}

TEST_F(FileTargetTest, DamagedJournalsAreKeptAndReported) {
  ApplyWithoutUnlink();
  const fs::path journal = folder() / ".xorbit/journal";
  fs::resize_file(journal, fs::file_size(journal) - 1);
  EXPECT_EQ(State(), JournalState::kDamaged);
  const auto changes = RecoverInPlace(PosixFileOps(), folder(), RecoveryDirection::kRedo);
  EXPECT_EQ(changes.status().code(), Code::kCorrupt);
  EXPECT_THAT(changes.status().message(), HasSubstr("xorbit verify"));
  EXPECT_TRUE(fs::exists(journal));
}

TEST_F(FileTargetTest, FilesThatChangedSinceAreRefusedAndLeftAlone) {
  ApplyWithoutUnlink();
  const OwnedPatch& patch = *std::find_if(change_.patches.begin(), change_.patches.end(),
                                          [](const OwnedPatch& candidate) { return candidate.file_index == 1; });
  const uint64_t touched = patch.file_offset + uint64_t{patch.positions[0]} * patch.unit_bytes;
  const uint8_t before = change_.base[1][touched];
  const uint8_t after = change_.target[1][touched];
  uint8_t neither = 0;
  while (neither == before || neither == after) ++neither;
  for (const uint64_t at : {uint64_t{5}, touched}) {  // in the header; in a weight
    Overwrite(file(1), at, neither ^ (at == 5 ? change_.base[1][5] ^ 1 ^ neither : 0));
    const Result<Buffer> left = ReadWholeFile(file(1), uint64_t{1} << 30);
    const auto changes = RecoverInPlace(PosixFileOps(), folder(), RecoveryDirection::kUndo);
    EXPECT_EQ(changes.status().code(), Code::kRefused) << at;
    EXPECT_EQ(*ReadWholeFile(file(1), uint64_t{1} << 30), *left);
    EXPECT_EQ(State(), JournalState::kSealed);
    Overwrite(file(1), at, change_.target[1][at]);
  }
  fs::resize_file(file(1), change_.base[1].size() + 1);
  EXPECT_EQ(RecoverInPlace(PosixFileOps(), folder(), RecoveryDirection::kUndo).status().code(), Code::kRefused);
  fs::resize_file(file(1), 10);
  EXPECT_EQ(RecoverInPlace(PosixFileOps(), folder(), RecoveryDirection::kUndo).status().code(), Code::kRefused);
}

TEST_F(FileTargetTest, OldValuesThatAreNotThereAreRolledBack) {
  const OwnedPatch& patch = change_.patches.back();
  const uint64_t touched = patch.file_offset + uint64_t{patch.positions[0]} * patch.unit_bytes;
  for (const bool twice : {false, true}) {
    if (twice) {
      change_.patches.push_back(patch);  // the same element in two blocks
    } else {
      change_.base[patch.file_index][touched] ^= 1;
      change_.WriteBaseTo(folder());
    }
    const Status status = ApplyInPlace(PosixFileOps(), folder(), change_);
    EXPECT_EQ(status.code(), Code::kRefused);
    EXPECT_THAT(status.message(), HasSubstr("nothing was changed"));
    EXPECT_EQ(CompareFiles(change_, folder()), FilesAre::kBase);
    EXPECT_EQ(State(), JournalState::kNone);
    if (!twice) change_.base[patch.file_index][touched] ^= 1;
    change_.WriteBaseTo(folder());
  }
}

TEST_F(FileTargetTest, LinkedFilesAreRefused) {
  fs::create_hard_link(file(1), folder() / "other");
  EXPECT_EQ(ApplyInPlace(PosixFileOps(), folder(), change_).code(), Code::kRefused);
  fs::remove(file(1));
  fs::create_symlink("other", file(1));
  EXPECT_EQ(ApplyInPlace(PosixFileOps(), folder(), change_).code(), Code::kRefused);
  EXPECT_EQ(CompareFiles(change_, folder()), FilesAre::kBase);
}

TEST_F(FileTargetTest, ASecondProcessIsRefused) {
  Result<FileTarget> target = FileTarget::Open(PosixFileOps(), folder(), 1);
  ASSERT_TRUE(target.ok());
  const pid_t child = ::fork();
  if (child == 0) ::_exit(ExitCodeOf(ApplyInPlace(PosixFileOps(), folder(), change_).code()));
  int wait_status = 0;
  ASSERT_EQ(::waitpid(child, &wait_status, 0), child);
  ASSERT_TRUE(WIFEXITED(wait_status));
  EXPECT_EQ(WEXITSTATUS(wait_status), ExitCodeOf(Code::kRefused));
  EXPECT_EQ(CompareFiles(change_, folder()), FilesAre::kBase);
  EXPECT_EQ(FileTarget::Open(PosixFileOps(), file(0), 1).status().code(), Code::kRefused) << "one lock a folder";
}

TEST_F(FileTargetTest, TheFolderOfTheLockGoesAgainUnlessItIsNeeded) {
  const fs::path control = folder() / ".xorbit";
  { ASSERT_TRUE(FileTarget::Open(PosixFileOps(), folder(), 1).ok()); }
  EXPECT_FALSE(fs::exists(control));
  ASSERT_TRUE(ApplyInPlace(PosixFileOps(), folder(), change_).ok());
  EXPECT_FALSE(fs::exists(control));
  change_.WriteBaseTo(folder());
  ApplyWithoutUnlink();
  EXPECT_TRUE(fs::exists(control / "journal"));
  fs::remove_all(control);
  fs::create_directory(control);
  { ASSERT_TRUE(FileTarget::Open(PosixFileOps(), folder(), 1).ok()); }
  EXPECT_TRUE(fs::exists(control)) << "somebody else made it";
}

TEST_F(FileTargetTest, AJournalIsSeenThroughSymbolicLinks) {
  ApplyWithoutUnlink();
  const TemporaryFolder other;
  const fs::path link = other / "shard.safetensors";
  fs::copy_file(file(1), other / "own.safetensors");
  EXPECT_EQ(*ReadJournalState(other.path()), JournalState::kNone);
  fs::create_symlink(file(0), link);
  EXPECT_EQ(*ReadJournalState(other.path()), JournalState::kSealed);
  EXPECT_EQ(*ReadJournalState(link), JournalState::kSealed);
  EXPECT_EQ(*ReadJournalState(other / "own.safetensors"), JournalState::kNone);
  fs::remove(link);
  fs::create_symlink(folder() / "absent", link);  // opening it will say so
  EXPECT_EQ(*ReadJournalState(other.path()), JournalState::kNone);
}

TEST_F(FileTargetTest, PathsThatAreNoCheckpointAreNamed) {
  EXPECT_EQ(FileTarget::Open(PosixFileOps(), folder() / "absent", 1).status().code(), Code::kNotFound);
  EXPECT_EQ(ReadJournalState(folder() / "absent").status().code(), Code::kNotFound);
}

}  // namespace
}  // namespace xorbit
