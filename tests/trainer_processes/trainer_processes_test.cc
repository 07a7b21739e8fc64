// Trainer ranks as processes, each with its own shards, that meet in a store in a folder alone. One of them is killed (kill -9)
// at a random change that it makes to the disk, again and again. Sometimes it alone is started again and joins the others,
// sometimes the whole run is, with another number of ranks, from the newest checkpoint that it had saved of itself. Receivers
// follow all the while, and at the end every version is there whole.
//
// XORBIT_TEST_SEED=N for other models and kills, XORBIT_TEST_ROUNDS=N for N kills. When processes run is not in the seed.
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <thread>

#include "backend/cpu/cpu_backend.h"
#include "base/temporary_folder.h"
#include "base/testing/seed.h"
#include "delta/oracle.h"
#include "journey/gated_sampler.h"
#include "publish/trainer_checkpoint.h"
#include "receive/host_memory.h"
#include "store/fetch.h"
#include "store/testing/stream_info_of.h"
#include "tensor/random_live_map.h"
#include "trainer_processes/rank.h"
#include "transport/folder_store.h"

namespace xorbit::trainer_processes {
namespace {

constexpr auto kDeathDeadline = std::chrono::seconds(60);

class TrainerProcessesTest : public testing::TestWithParam<uint32_t> {
 protected:
  TrainerProcessesTest() {
    fs::create_directory(place_.checkpoints);
    void* const memory = ::mmap(nullptr, sizeof(Board), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    EXPECT_NE(memory, MAP_FAILED);
    place_.board = new (memory) Board();  // tidy-allow: placement into memory that fork shares
    place_.board->last_version = UINT64_MAX;
    for (LiveMap map : {CanonicalMap(model_.layout()), RandomLiveMap(random_, model_.layout()).Make()}) {
      auto weights = std::make_unique<HostMemory>(model_.layout(), std::move(map));
      LoadTensors(weights->live(), model_.served());
      auto sampler = GatedSampler::Start(stream_, *backend_, std::move(weights), 0, *alone_, {});
      EXPECT_TRUE(sampler.ok()) << sampler.status().message();
      samplers_.push_back(std::move(sampler).value());
    }
  }
  ~TrainerProcessesTest() override {
    for (uint32_t rank = 0; rank < kMaxRanks; ++rank) Kill(rank);
    ::munmap(place_.board, sizeof(Board));
  }

  void Start(uint32_t rank) {
    const pid_t child = ::fork();
    ASSERT_GE(child, 0);
    if (child == 0) {
      const Status status = LiveAsRank(place_, model_, life_, rank);
      if (!status.ok())
        std::fprintf(stderr, "rank %u of %s: %s\n", rank, IdOfLife(life_.number).c_str(), status.message().c_str());
      ::_exit(status.ok() ? 0 : 1);
    }
    children_[rank] = child;
  }
  void StartAll() {
    for (uint32_t rank = 0; rank < life_.rank_count; ++rank) Start(rank);
  }
  void Kill(uint32_t rank) {
    if (children_[rank] == 0) return;
    ::kill(children_[rank], SIGKILL);
    ::waitpid(children_[rank], nullptr, 0);
    children_[rank] = 0;
    place_.board->calls_left[rank] = 0;
  }
  // How the rank's process ended, within the deadline.
  int Await(uint32_t rank) {
    const auto end = std::chrono::steady_clock::now() + kDeathDeadline;
    int state = 0;
    while (::waitpid(children_[rank], &state, WNOHANG) == 0) {
      if (std::chrono::steady_clock::now() > end) {
        ADD_FAILURE() << "rank " << rank << " neither goes on nor ends";
        Kill(rank);
        return -1;
      }
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    children_[rank] = 0;
    return state;
  }

  // Everything anew, from the newest checkpoint that is whole.
  void RestartRun() {
    for (uint32_t rank = 0; rank < life_.rank_count; ++rank) Kill(rank);
    ++life_.number;
    life_.rank_count = static_cast<uint32_t>(Between(random_, 1, GetParam()));
    life_.begins_at = 0;
    life_.checkpoint.clear();
    for (const auto& folder : fs::directory_iterator(place_.checkpoints)) {
      const auto identity = ReadTrainerIdentity(folder.path());
      if (!identity.ok() || identity->version <= life_.begins_at) continue;
      life_.begins_at = identity->version;
      life_.checkpoint = folder.path();
    }
    resumed_count_ += life_.checkpoint.empty() ? 0 : 1;
    StartAll();
  }

  // Takes every receiver to `version`, and compares all of its bytes.
  void Follow(uint64_t version) {
    const auto expected = model_.At(stream_, version);
    ASSERT_TRUE(expected.ok()) << expected.status().message();
    for (const auto& sampler : samplers_) {
      const Status status = sampler->receiver().Sync(version);
      ASSERT_TRUE(status.ok()) << status.message();
      ASSERT_TRUE(HoldsTensors(sampler->memory().live(), (*expected)->bytes())) << "version " << version;
    }
  }

  void KillOne() {
    const auto victim = static_cast<uint32_t>(Between(random_, 0, life_.rank_count - 1));
    place_.board->calls_left[victim] = static_cast<int64_t>(Between(random_, 1, 80));
    const int state = Await(victim);
    ASSERT_TRUE(WIFSIGNALED(state) && WTERMSIG(state) == SIGKILL) << "rank " << victim << " ended with state " << state;
    if (Between(random_, 0, 3) == 0) {
      RestartRun();
    } else {
      Start(victim);
    }
    Follow(stream_.Newest().value());
  }

  // Every version is there, has its parent, and is what its life made of it.
  void ProveStream(uint64_t newest) {
    for (uint64_t version = 1; version <= newest; ++version) {
      const auto expected = model_.At(stream_, version);
      ASSERT_TRUE(expected.ok()) << expected.status().message();
      EXPECT_EQ(stream_.Record(version).value()->target, OracleDigest(model_.layout(), (*expected)->bytes()));
      EXPECT_TRUE(FetchDelta(stream_, stream_.StepEdge(version).value(), {}).ok()) << "version " << version;
    }
    for (uint64_t version = newest; version > 0; version -= std::min<uint64_t>(version, Between(random_, 1, 9)))
      Follow(version);
    Follow(0);
    Follow(newest);
  }

  const uint64_t seed_ = TestSeed() + GetParam();
  Random random_{seed_};
  TemporaryFolder folder_;
  Place place_ = {folder_ / "store", folder_ / "checkpoints", nullptr};
  Model model_{seed_};
  std::unique_ptr<ObjectStore> store_ = OpenFolderStore(PosixFileOps(), place_.store).value();
  Stream stream_ = Stream::Create(*store_, StreamInfoOf(model_.layout(), model_.served(), "run"), model_.layout()).value();
  std::unique_ptr<Backend> backend_ = MakeCpuBackend();
  std::unique_ptr<CohortMember> alone_ = AloneMember();
  std::vector<std::unique_ptr<GatedSampler>> samplers_;
  Life life_{.rank_count = GetParam()};
  std::array<pid_t, kMaxRanks> children_{};
  uint64_t resumed_count_ = 0;
};

TEST_P(TrainerProcessesTest, TheRunGoesOnWhicheverRankDiesAtAnyStep) {
  SCOPED_TRACE("XORBIT_TEST_SEED=" + std::to_string(TestSeed()));
  const uint64_t kill_count = TestRounds(20);
  StartAll();
  for (uint64_t kill = 0; kill < kill_count && !HasFailure(); ++kill) KillOne();
  place_.board->last_version = stream_.Newest().value() + 10;  // no rank has passed it yet
  for (uint32_t rank = 0; rank < life_.rank_count; ++rank) {
    const int state = HasFailure() ? 0 : Await(rank);
    ASSERT_TRUE(WIFEXITED(state) && WEXITSTATUS(state) == 0) << "rank " << rank << " ended with state " << state;
  }
  const uint64_t newest = stream_.Newest().value();
  ASSERT_EQ(newest, place_.board->last_version);
  ProveStream(newest);
  std::printf("%u ranks: %llu kills, %llu lives of the run, %llu of them from a checkpoint, %llu versions\n", GetParam(),
              static_cast<unsigned long long>(kill_count), static_cast<unsigned long long>(life_.number + 1),
              static_cast<unsigned long long>(resumed_count_), static_cast<unsigned long long>(newest));
}
INSTANTIATE_TEST_SUITE_P(Ranks, TrainerProcessesTest, testing::Values(2U, 3U, 4U));

}  // namespace
}  // namespace xorbit::trainer_processes
