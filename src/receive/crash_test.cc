// Crashes, simulated and real: after each, a run of the recovery must leave base or target, byte for byte.
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <thread>

#include "base/testing/recording_file_ops.h"
#include "base/testing/seed.h"
#include "receive/testing/planned_change.h"

namespace xorbit {
namespace {

class CrashTest : public testing::Test {
 protected:
  void SetUp() override { std::printf("seed %llu\n", static_cast<unsigned long long>(seed_)); }

  // A fresh folder with the base in it.
  fs::path NewBase(const PlannedChange& change) {
    const fs::path folder = NewName();
    fs::create_directory(folder);
    change.WriteBaseTo(folder);
    return folder;
  }
  fs::path NewName() { return folder_.path() / std::to_string(name_count_++); }

  uint64_t CallsOfOneApply(const PlannedChange& change) {
    const fs::path folder = NewBase(change);
    RecordingFileOps ops(folder);
    EXPECT_TRUE(ApplyInPlace(ops, folder, change).ok());
    EXPECT_EQ(CompareFiles(change, folder), FilesAre::kTarget);
    fs::remove_all(folder);
    return ops.call_count();
  }

  RecoveryDirection RandomDirection() { return random_() % 2 == 0 ? RecoveryDirection::kRedo : RecoveryDirection::kUndo; }

  // Recovers what a crash left in `folder` and checks that it is whole: the target if a change was found and finished, the base
  // if it was taken back, either if there was nothing to recover.
  void ExpectRecovers(const PlannedChange& change, const fs::path& folder) {
    RecordingFileOps ops(folder);  // spares real fsyncs
    const RecoveryDirection direction = RandomDirection();
    const auto changes = RecoverInPlace(ops, folder, direction);
    ASSERT_TRUE(changes.ok()) << changes.status().message();
    const FilesAre result = CompareFiles(change, folder);
    ASSERT_NE(result, FilesAre::kNeither);
    if (!changes->empty()) {
      ++recovered_count_;
      EXPECT_EQ(result, direction == RecoveryDirection::kRedo ? FilesAre::kTarget : FilesAre::kBase);
    }
    EXPECT_EQ(*ReadJournalState(folder), JournalState::kNone);
    // What was recovered can be changed again (tried now and then, for it takes as long as all the rest).
    if (result == FilesAre::kBase && random_() % 4 == 0) {
      EXPECT_TRUE(ApplyInPlace(ops, folder, change).ok());
      EXPECT_EQ(CompareFiles(change, folder), FilesAre::kTarget);
    }
  }

  const uint64_t seed_ = TestSeed();
  std::mt19937_64 random_{seed_};
  TemporaryFolder folder_;
  int name_count_ = 0;
  int recovered_count_ = 0;
};

TEST_F(CrashTest, PowerCutsAtEveryCall) {
  const PlannedChange change = PlanChange(random_, {30'000, 90'000}, 0.01);
  const fs::path folder = NewBase(change);
  RecordingFileOps ops(folder);
  ASSERT_TRUE(ApplyInPlace(ops, folder, change).ok());
  for (uint64_t cut = 0; cut <= ops.call_count(); ++cut) {
    for (int i = 0; i < 20; ++i) {
      SCOPED_TRACE("seed " + std::to_string(seed_) + ", cut at call " + std::to_string(cut));
      const fs::path left = NewName();
      ops.BuildAfterPowerCut(cut, random_, left);
      ExpectRecovers(change, left);
      if (HasFatalFailure()) return;
      fs::remove_all(left);
    }
  }
  EXPECT_GT(recovered_count_, 40) << "the cuts must hit the time when the journal decides";
}

// A process is killed at a call, or a call fails and it rolls back; what it wrote is in memory. The next run recovers, and the
// power fails during any of that: everything that either of them did not fsync may be lost.
TEST_F(CrashTest, PowerCutsDuringRollBackAndRecovery) {
  const PlannedChange change = PlanChange(random_, {30'000, 60'000}, 0.01);
  const uint64_t call_count = CallsOfOneApply(change);
  for (uint64_t killed = 0; killed < call_count; ++killed) {
    const fs::path folder = NewBase(change);
    RecordingFileOps ops(folder);
    ops.FailCalls(killed, random_() % 2 == 0 ? RecordingFileOps::kNever : killed + random_() % 3);
    static_cast<void>(ApplyInPlace(ops, folder, change));
    ops.FailCalls(RecordingFileOps::kNever, 0);
    ASSERT_TRUE(RecoverInPlace(ops, folder, RandomDirection()).ok());
    for (int i = 0; i < 40; ++i) {
      const uint64_t cut = killed + random_() % (ops.call_count() - killed + 1);
      SCOPED_TRACE("seed " + std::to_string(seed_) + ", killed at call " + std::to_string(killed) + ", cut at call " +
                   std::to_string(cut));
      const fs::path left = NewName();
      ops.BuildAfterPowerCut(cut, random_, left);
      ExpectRecovers(change, left);
      if (HasFatalFailure()) return;
      fs::remove_all(left);
    }
    fs::remove_all(folder);
  }
  EXPECT_GT(recovered_count_, 40);
}

TEST_F(CrashTest, EveryCallMayFail) {
  const PlannedChange change = PlanChange(random_, {30'000, 200'000, 500}, 0.0003);
  const uint64_t call_count = CallsOfOneApply(change);
  for (const uint64_t failures : {uint64_t{1}, uint64_t{2}, uint64_t{5}}) {
    for (uint64_t first = 0; first < call_count; ++first) {
      SCOPED_TRACE("seed " + std::to_string(seed_) + ", " + std::to_string(failures) + " failures from call " +
                   std::to_string(first));
      const fs::path folder = NewBase(change);
      RecordingFileOps ops(folder);
      ops.FailCalls(first, first + failures - 1);
      const Status status = ApplyInPlace(ops, folder, change);
      const bool journal_stays = fs::exists(folder / ".xorbit/journal");
      // The error tells the truth about the files.
      const auto says = [&status](std::string_view text) { return status.message().find(text) != std::string::npos; };
      if (says("nothing was changed")) {
        EXPECT_EQ(CompareFiles(change, folder), FilesAre::kBase);
      }
      if (says("whole and on disk")) {
        EXPECT_EQ(CompareFiles(change, folder), FilesAre::kTarget);
      }
      if (!journal_stays) {
        EXPECT_NE(CompareFiles(change, folder), FilesAre::kNeither);
      }
      if (CompareFiles(change, folder) == FilesAre::kNeither) {
        EXPECT_TRUE(says("stays")) << status.message();
      }
      ExpectRecovers(change, folder);
      if (HasFatalFailure()) return;
      fs::remove_all(folder);
    }
  }
}

// Forks a process that applies `change` to `folder`, and kills it after `delay`: counted from now, or from the moment when its
// journal is sealed.
void ApplyAndKill(const PlannedChange& change, const fs::path& folder, bool from_sealed, std::chrono::microseconds delay) {
  const pid_t child = ::fork();
  if (child == 0) {
    static_cast<void>(ApplyInPlace(PosixFileOps(), folder, change, /*threads=*/2));
    ::_exit(0);
  }
  const auto has_ended = [child] {
    siginfo_t info{};
    return ::waitid(P_PID, static_cast<id_t>(child), &info, WEXITED | WNOHANG | WNOWAIT) == 0 && info.si_pid == child;
  };
  while (from_sealed && !fs::exists(folder / ".xorbit/journal") && !has_ended()) std::this_thread::yield();
  std::this_thread::sleep_for(delay);
  ::kill(child, SIGKILL);
  ASSERT_EQ(::waitpid(child, nullptr, 0), child);
}

TEST_F(CrashTest, KilledAtAnyMoment) {
  const PlannedChange change = PlanChange(random_, {100'000, 2'000'000}, 0.02);
  const fs::path folder = NewBase(change);
  const auto start = std::chrono::steady_clock::now();
  ASSERT_TRUE(ApplyInPlace(PosixFileOps(), folder, change).ok());
  const auto whole = std::chrono::duration_cast<std::chrono::microseconds>(std::chrono::steady_clock::now() - start);
  int torn_count = 0;
  for (int i = 0; i < 200; ++i) {
    SCOPED_TRACE("seed " + std::to_string(seed_) + ", kill " + std::to_string(i));
    change.WriteBaseTo(folder);
    // Most of the time goes into fsync; half of the kills aim at the stores between them.
    const bool from_sealed = i % 2 == 1;
    const auto longest = static_cast<uint64_t>(whole.count()) * 5 / 4 / (from_sealed ? 5 : 1);
    ASSERT_NO_FATAL_FAILURE(ApplyAndKill(change, folder, from_sealed, std::chrono::microseconds(random_() % (longest + 1))));
    if (CompareFiles(change, folder) == FilesAre::kNeither) {
      ++torn_count;
      EXPECT_EQ(*ReadJournalState(folder), JournalState::kSealed);
    }
    ExpectRecovers(change, folder);
    if (HasFatalFailure()) return;
  }
  std::printf("%d of 200 kills left half-changed files, %d a journal\n", torn_count, recovered_count_);
}

TEST_F(CrashTest, KilledAtEveryCallAndAgainInRecovery) {
  const PlannedChange change = PlanChange(random_, {30'000, 200'000, 500}, 0.0003);
  const uint64_t call_count = CallsOfOneApply(change);
  const fs::path folder = NewBase(change);
  const auto run_and_die = [&folder](uint64_t victim, const auto& work) {
    const pid_t child = ::fork();
    if (child == 0) {
      RecordingFileOps ops(folder);
      ops.DieAtCall(victim);
      work(ops);
      ::_exit(0);
    }
    int wait_status = 0;
    ::waitpid(child, &wait_status, 0);
    return WIFSIGNALED(wait_status);
  };
  for (uint64_t victim = 0; victim < call_count; ++victim) {
    SCOPED_TRACE("seed " + std::to_string(seed_) + ", killed at call " + std::to_string(victim));
    fs::remove_all(folder / ".xorbit");
    change.WriteBaseTo(folder);
    EXPECT_TRUE(run_and_die(victim, [&](FileOps& ops) { static_cast<void>(ApplyInPlace(ops, folder, change)); }));
    const RecoveryDirection direction = RandomDirection();
    const uint64_t victim_again = random_() % 12;
    run_and_die(victim_again, [&](FileOps& ops) { static_cast<void>(RecoverInPlace(ops, folder, direction)); });
    ExpectRecovers(change, folder);
    if (HasFatalFailure()) return;
  }
}

}  // namespace
}  // namespace xorbit
