// Several threads replay one journal: nobody writes where another does, and what went wrong is taken back wherever it was
// written, and nowhere else.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/testing/recording_file_ops.h"
#include "base/testing/seed.h"
#include "receive/patch_check.h"
#include "receive/testing/planned_change.h"

namespace xorbit {
namespace {

using testing::HasSubstr;

constexpr int kThreads = 4;

class ReplayConcurrencyTest : public testing::Test {
 protected:
  void SetUp() override { std::printf("seed %llu\n", static_cast<unsigned long long>(seed_)); }
  const fs::path& folder() const { return folder_.path(); }

  const uint64_t seed_ = TestSeed();
  std::mt19937_64 random_{seed_};
  TemporaryFolder folder_;
  PlannedChange change_ = PlanChange(random_, {19'000'000, 17'000'000, 500}, 0.0002);  // three stretches, three, one
};

TEST_F(ReplayConcurrencyTest, StretchesHoldEveryBlockAndShareNoByte) {
  for (OwnedPatch& patch : change_.patches) patch.file_index = 0;  // as if all were one file's: blocks interleave all over
  change_.files.resize(1);
  for (const bool interleaved : {true, false}) {
    if (!interleaved) change_ = PlanChange(random_, {40'000'000, 17'000'000}, 0.001);
    const fs::path path = folder() / (interleaved ? "interleaved" : "plain");
    auto writer = JournalWriter::Create(PosixFileOps(), path, {change_.identity, change_.journal_files()});
    ASSERT_TRUE(writer.ok());
    for (const OwnedPatch& patch : change_.patches) ASSERT_TRUE((*writer)->Add(patch.View()).ok());
    ASSERT_TRUE((*writer)->Finish().ok());
    const Result<MappedFile> map = MappedFile::Open(path);
    ASSERT_TRUE(map.ok());
    const Result<Journal> journal = Journal::Parse(map->bytes());
    ASSERT_TRUE(journal.ok());

    const std::vector<BlockRange> stretches = PlanStretches(*journal);
    EXPECT_GE(stretches.size(), interleaved ? 2u : 5u);
    uint64_t next = 0;
    uint64_t file_index = 0;
    uint64_t end = 0;  // of everything before, in the file
    for (const BlockRange& stretch : stretches) {
      ASSERT_EQ(stretch.first, next);
      ASSERT_LT(stretch.first, stretch.last);
      if (journal->block(stretch.first).file_index != file_index) end = 0;
      file_index = journal->block(stretch.first).file_index;
      ASSERT_GE(PatchBegin(journal->block(stretch.first)), end);
      for (next = stretch.first; next < stretch.last; ++next) {
        ASSERT_EQ(journal->block(next).file_index, file_index);
        end = std::max(end, PatchEnd(journal->block(next)));
      }
    }
    EXPECT_EQ(next, journal->block_count());
  }
}

TEST_F(ReplayConcurrencyTest, EveryChangeArrives) {
  for (const double density : {0.3, 0.00001}) {
    const PlannedChange change = PlanChange(random_, {19'000'000, 700'000, 500}, density);
    change.WriteBaseTo(folder());
    ASSERT_TRUE(ApplyInPlace(PosixFileOps(), folder(), change, kThreads).ok()) << density;
    EXPECT_EQ(CompareFiles(change, folder()), FilesAre::kTarget) << density;
    EXPECT_EQ(*ReadJournalState(folder()), JournalState::kNone);
  }
}

// Which write fails differs from run to run; that the files end as the error says does not.
TEST_F(ReplayConcurrencyTest, FailedWritesAreTakenBackOrStayInTheJournal) {
  change_.WriteBaseTo(folder());
  RecordingFileOps counting(folder());
  ASSERT_TRUE(ApplyInPlace(counting, folder(), change_, kThreads).ok());
  for (const uint64_t failures : {uint64_t{1}, uint64_t{2}, RecordingFileOps::kNever}) {
    for (int i = 0; i < 8; ++i) {
      const uint64_t first = random_() % counting.call_count();
      SCOPED_TRACE("from call " + std::to_string(first));
      fs::remove_all(folder() / ".xorbit");
      change_.WriteBaseTo(folder());
      RecordingFileOps ops(folder());
      ops.FailCalls(first, failures == RecordingFileOps::kNever ? failures : first + failures - 1);
      const Status status = ApplyInPlace(ops, folder(), change_, kThreads);
      if (status.message().find("nothing was changed") != std::string::npos) {
        EXPECT_EQ(CompareFiles(change_, folder()), FilesAre::kBase);
      }
      const bool interrupted = fs::exists(folder() / ".xorbit/journal");
      if (!interrupted) {
        EXPECT_NE(CompareFiles(change_, folder()), FilesAre::kNeither);
      }
      const bool redo = random_() % 2 == 0;
      const auto direction = redo ? RecoveryDirection::kRedo : RecoveryDirection::kUndo;
      ASSERT_TRUE(RecoverInPlace(PosixFileOps(), folder(), direction, kThreads).ok());
      if (interrupted) {
        EXPECT_EQ(CompareFiles(change_, folder()), redo ? FilesAre::kTarget : FilesAre::kBase);
      }
    }
  }
}

// A value that the journal does not know must survive the roll-back of everything around it.
TEST_F(ReplayConcurrencyTest, ForeignValuesAreRefusedAndLeftAlone) {
  for (int i = 0; i < 6; ++i) {
    PlannedChange foreign = change_;
    const OwnedPatch& patch = change_.patches[random_() % change_.patches.size()];
    const uint64_t touched = patch.file_offset + uint64_t{patch.positions.back()} * patch.unit_bytes;
    foreign.base[patch.file_index][touched] ^= 1;
    foreign.WriteBaseTo(folder());
    const Status status = ApplyInPlace(PosixFileOps(), folder(), change_, kThreads);
    EXPECT_EQ(status.code(), Code::kRefused);
    EXPECT_THAT(status.message(), HasSubstr("nothing was changed"));
    EXPECT_EQ(CompareFiles(foreign, folder()), FilesAre::kBase);
  }
}

}  // namespace
}  // namespace xorbit
