// A cohort of processes, one of which is killed at every step in turn and started again, with the checkpoint or with the memory
// that outlived it: all arrive at the newest version, no byte that is served is ever wrong, and no two ranks ever serve
// different versions.
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <csignal>
#include <thread>

#include "backend/cpu/cpu_backend.h"
#include "base/temporary_folder.h"
#include "base/testing/seed.h"
#include "receive/receiver.h"
#include "receive/store_cohort.h"
#include "receive/testing/live_stream.h"
#include "receive/testing/shared_bytes.h"
#include "transport/folder_store.h"
#include "transport/testing/forwarding_store.h"

namespace xorbit {
namespace {

constexpr uint32_t kRanks = 3;
constexpr uint64_t kVersions = 2;

// Shared between the processes.
struct Board {
  std::array<std::atomic<uint64_t>, kRanks> serves;  // version + 1; 0: stands still, or dead
  std::atomic<uint64_t> disagreement_count;
};

// When the victim dies: at its n-th change of the cohort's store, before or after it, or at its n-th call of its engine.
struct Death {
  enum class At { kNever, kBeforeChange, kAfterChange, kEngineCall } at = At::kNever;
  uint64_t count = 0;
};

class CohortCrashTest : public testing::Test {
 protected:
  CohortCrashTest()
      : random_(TestSeed()),
        store_(OpenFolderStore(PosixFileOps(), folder_ / "stream").value()),
        made_(random_, *backend_, *store_, kVersions, 500),
        maps_(RandomRanks(random_, made_.layout(), kRanks)) {
    made_.PublishAll();
    for (uint32_t rank = 0; rank < kRanks; ++rank) {
      weights_.push_back(std::make_unique<SharedBytes>(1 << 20));
      undo_.push_back(std::make_unique<SharedBytes>(1 << 20));
    }
  }

  // In the same places in every life; in shared memory, with what it holds there.
  std::unique_ptr<WatchingEngine> EngineOf(uint32_t rank) const {
    Random same = random_;
    if (is_shared_) return std::make_unique<WatchingEngine>(same, made_, maps_[rank], weights_[rank]->bytes());
    return std::make_unique<WatchingEngine>(same, made_, maps_[rank], 0);
  }

  // The life of one rank: 0 once it serves the newest version with the right bytes.
  int Live(uint32_t rank, const Death& death) {
    uint64_t at = 0;
    const auto die_at = [&](Death::At where) {
      return [&, where](const auto& /*what*/) {
        if (death.at == where && at++ == death.count) ::raise(SIGKILL);
        return Status();
      };
    };
    const auto folder_store = OpenFolderStore(PosixFileOps(), folder_ / cohort_);
    if (!folder_store.ok()) return 10;
    ForwardingStore store(**folder_store);
    store.before_change = die_at(Death::At::kBeforeChange);
    store.after_change = die_at(Death::At::kAfterChange);
    CohortOptions options;
    options.rank = rank;
    options.rank_count = kRanks;
    options.prepare_patience = std::chrono::milliseconds(300);
    options.pause_patience = std::chrono::milliseconds(300);
    const auto member = MakeStoreCohort(store, options).value();

    const auto engine_of_rank = EngineOf(rank);
    WatchingEngine& engine = *engine_of_rank;
    ReceiverOptions receiver_options;
    if (is_shared_) receiver_options.undo_memory = undo_[rank]->bytes();
    engine.on_call = [&](const std::string& call) {
      if (call == "pause") board_->serves[rank] = 0;
      return die_at(Death::At::kEngineCall)(call);
    };
    engine.on_serve = [&](uint64_t version) {
      board_->serves[rank] = version + 1;
      for (const auto& other : board_->serves) {
        const uint64_t serves = other;
        if (serves != 0 && serves != version + 1) ++board_->disagreement_count;
      }
    };
    const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(120);
    while (std::chrono::steady_clock::now() < end) {
      auto receiver = Receiver::Attach(made_.stream(), *backend_, engine.memory(), engine, *member, receiver_options, 0);
      if (!receiver.ok()) return 11;
      while ((*receiver)->version() != kVersions && std::chrono::steady_clock::now() < end) {
        // Version by version: the most sessions.
        if (!(*receiver)->Sync((*receiver)->version() + 1).ok()) std::this_thread::sleep_for(std::chrono::milliseconds(3));
        if ((*receiver)->state() == SyncState::kBroken) return 12;
      }
      if (!(*receiver)->Verify().ok()) return 13;
      return engine.wrong_count() == 0 && engine.Holds(kVersions) ? 0 : 14;
    }
    return 15;
  }

  pid_t Start(uint32_t rank, const Death& death) {
    const pid_t child = ::fork();
    if (child == 0) ::_exit(Live(rank, death));
    return child;
  }

  // Whether the victim got as far as its death.
  bool RunOnce(uint32_t victim, const Death& death) {
    cohort_ = "cohort-" + std::to_string(run_++);
    for (auto& serves : board_->serves) serves = 0;
    for (uint32_t rank = 0; is_shared_ && rank < kRanks; ++rank) {
      EngineOf(rank)->Load(0);
      std::ranges::fill(undo_[rank]->bytes(), 0);
    }
    std::array<pid_t, kRanks> ranks{};
    for (uint32_t rank = 0; rank < kRanks; ++rank) ranks[rank] = Start(rank, rank == victim ? death : Death());
    int state = 0;
    EXPECT_EQ(::waitpid(ranks[victim], &state, 0), ranks[victim]);
    const bool has_died = WIFSIGNALED(state);
    if (has_died) {
      board_->serves[victim] = 0;
      const pid_t again = Start(victim, Death());
      EXPECT_EQ(::waitpid(again, &state, 0), again);
    }
    EXPECT_TRUE(WIFEXITED(state) && WEXITSTATUS(state) == 0) << "victim: " << state;
    for (uint32_t rank = 0; rank < kRanks; ++rank) {
      if (rank == victim) continue;
      EXPECT_EQ(::waitpid(ranks[rank], &state, 0), ranks[rank]);
      EXPECT_TRUE(WIFEXITED(state) && WEXITSTATUS(state) == 0) << "rank " << rank << ": " << state;
    }
    EXPECT_EQ(board_->disagreement_count, 0);
    return has_died;
  }

  void DieAtAnyStep() {
    uint64_t deaths = 0;
    for (const Death::At at : {Death::At::kBeforeChange, Death::At::kAfterChange, Death::At::kEngineCall}) {
      for (uint64_t count = 0; count < 10; ++count) {
        const auto victim = static_cast<uint32_t>(count % kRanks);
        SCOPED_TRACE("rank " + std::to_string(victim) + " dies at step " + std::to_string(count) + " of kind " +
                     std::to_string(static_cast<int>(at)));
        deaths += RunOnce(victim, {at, count}) ? 1 : 0;
        if (HasFailure()) return;
      }
    }
    std::printf("%llu processes were killed\n", static_cast<unsigned long long>(deaths));
    EXPECT_GT(deaths, 12);
  }

  Random random_;
  TemporaryFolder folder_;
  std::unique_ptr<Backend> backend_ = MakeCpuBackend();
  std::unique_ptr<ObjectStore> store_;
  LiveStream made_;
  std::vector<LiveMap> maps_;
  SharedBytes board_bytes_{sizeof(Board)};
  Board* board_ = new (board_bytes_.bytes().data()) Board();  // tidy-allow: placement into memory that fork shares
  // Of each rank, if weights outlive who applies.
  bool is_shared_ = false;
  std::vector<std::unique_ptr<SharedBytes>> weights_;
  std::vector<std::unique_ptr<SharedBytes>> undo_;
  std::string cohort_;
  uint64_t run_ = 0;
};

TEST_F(CohortCrashTest, AllArriveWhicheverDiesAtAnyStep) { DieAtAnyStep(); }

// They come back without loading a checkpoint.
TEST_F(CohortCrashTest, AllArriveInMemoryThatOutlivesThem) {
  is_shared_ = true;
  DieAtAnyStep();
}

}  // namespace
}  // namespace xorbit
