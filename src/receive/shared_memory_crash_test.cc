// Live memory that outlives who applies: processes that are killed (kill -9) at any instruction of an update, while they attach
// again, or while they take an update back, leave memory that the next one makes exactly a version, or tells why it cannot.
//
// Where a process dies: at the first store to a page picked at random, of live memory or of undo memory (the page is made
// read-only for it); at a call of its engine; or whenever its parent's kill arrives.
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <csignal>
#include <thread>

#include "backend/cpu/cpu_backend.h"
#include "base/temporary_folder.h"
#include "base/testing/seed.h"
#include "receive/receiver.h"
#include "receive/testing/live_stream.h"
#include "receive/testing/shared_bytes.h"
#include "tensor/tensor_test_util.h"
#include "transport/folder_store.h"

namespace xorbit {
namespace {

constexpr uint64_t kVersions = 6;
constexpr uint64_t kPageBytes = 4096;

struct Board {
  std::atomic<uint64_t> pauses;
  std::atomic<uint64_t> applied;  // updates that a life came to the end of
};

struct Death {
  enum class At { kLivePage, kUndoPage, kEngineCall, kKill } at = At::kKill;
  uint64_t where = 0;  // page, call, or microseconds after the first pause
};

// Large enough that most pages change from version to version, and that there are many.
Layout TheLayout() {
  return MakeLayout({Tensor("a.embed", Dtype::kBF16, {400, 200}), Tensor("b.router", Dtype::kF32, {300, 100}),
                     Tensor("c.packed", Dtype::kU8, {300, 256}), Tensor("d.scale", Dtype::kF8E4M3, {256, 128}),
                     Tensor("e.weight", Dtype::kBF16, {500, 300})});
}

void DieHere(int /*signal*/) { ::kill(::getpid(), SIGKILL); }

class SharedMemoryCrashTest : public testing::Test {
 protected:
  SharedMemoryCrashTest()
      : random_(TestSeed()),
        store_(OpenFolderStore(PosixFileOps(), folder_ / "stream").value()),
        made_(random_, *backend_, *store_, kVersions, TheLayout()),
        map_(std::move(RandomRanks(random_, made_.layout(), 1).front())),
        places_(random_()),
        weights_(4 << 20),
        undo_(4 << 20),
        board_bytes_(kPageBytes),
        board_(new (board_bytes_.bytes().data()) Board()),  // tidy-allow: placement into memory that fork shares
        engine_(EngineOn(weights_)) {
    made_.PublishAll();
    engine_->Load(0);
  }

  // All lives' bytes lie at the same places.
  std::unique_ptr<WatchingEngine> EngineOn(const SharedBytes& weights) const {
    Random same(places_);
    return std::make_unique<WatchingEngine>(same, made_, map_, weights.bytes());
  }
  ReceiverOptions Options() const {
    ReceiverOptions options;
    options.threads = 2;
    options.undo_memory = undo_.bytes();
    options.pause_deadline = options.refresh_deadline = options.resume_deadline = std::chrono::seconds(60);
    return options;
  }

  void MakeReadOnly(MutableBytes bytes, uint64_t page) {
    ::signal(SIGSEGV, DieHere);
    uint8_t* const at = bytes.data() + page * kPageBytes;
    EXPECT_EQ(::mprotect(at, kPageBytes, PROT_READ), 0);
  }

  // The life of a process that applies until it is killed. It knows nothing of which version memory holds.
  int Live(uint64_t seed, const Death& death) {
    Random random(seed);
    uint64_t calls = 0;
    engine_->on_call = [&](const std::string& call) {
      if (call == "pause") ++board_->pauses;
      if (death.at == Death::At::kEngineCall && calls++ == death.where) DieHere(0);
      return Status();
    };
    if (death.at == Death::At::kLivePage) MakeReadOnly(weights_.bytes(), death.where);
    if (death.at == Death::At::kUndoPage) MakeReadOnly(undo_.bytes(), death.where);
    const auto receiver = Receiver::Attach(made_.stream(), *backend_, engine_->memory(), *engine_, *alone_, Options(), 0);
    if (!receiver.ok()) return Fail(11, receiver.status());
    for (int i = 0; i < 12; ++i) {
      const Status status = (*receiver)->Sync(Between(random, 0, kVersions));
      if (!status.ok()) return Fail(12, status);
      if (engine_->wrong_count() > 0) return 13;
      ++board_->applied;
    }
    return 0;
  }
  static int Fail(int code, const Status& status) {
    static_cast<void>(std::fprintf(stderr, "%s\n", status.message().c_str()));
    return code;
  }

  Death RandomDeath() {
    const uint64_t way = Between(random_, 0, 9);
    const uint64_t live_pages = engine_->bytes().size() / kPageBytes;
    if (way < 4) return {Death::At::kLivePage, Between(random_, 0, live_pages - 1)};
    if (way < 6) return {Death::At::kUndoPage, random_() % 3 == 0 ? 0 : Between(random_, 0, live_pages)};
    if (way < 7) return {Death::At::kEngineCall, Between(random_, 0, 12)};
    return {Death::At::kKill, Between(random_, 0, 8'000)};
  }

  // Runs a life to its end, or kills it.
  void RunLife(const std::function<int()>& live, const Death& death) {
    board_->pauses = 0;
    const pid_t child = ::fork();
    if (child == 0) ::_exit(live());
    int state = 0;
    pid_t ended = 0;
    if (death.at == Death::At::kKill) {
      while (board_->pauses == 0 && (ended = ::waitpid(child, &state, WNOHANG)) == 0) ::usleep(50);
      ::usleep(static_cast<useconds_t>(death.where));
      if (ended == 0) ::kill(child, SIGKILL);
    }
    if (ended == 0) ended = ::waitpid(child, &state, 0);
    EXPECT_EQ(ended, child);
    const bool has_ended = WIFEXITED(state) && WEXITSTATUS(state) == 0;
    const bool was_killed = WIFSIGNALED(state) && WTERMSIG(state) == SIGKILL;
    EXPECT_TRUE(has_ended || was_killed) << state;
    killed_count_ += was_killed ? 1 : 0;
  }

  // Takes back, in a copy of all memory, what was cut off, and compares every byte with the version that undo memory then
  // names.
  void ProveThatItIsAVersion() {
    const SharedBytes weights(weights_.bytes().size());
    const SharedBytes undo_bytes(undo_.bytes().size());
    std::ranges::copy(weights_.bytes(), weights.bytes().begin());
    std::ranges::copy(undo_.bytes(), undo_bytes.bytes().begin());
    const auto engine = EngineOn(weights);
    bool is_whole = false;
    for (uint64_t version = 0; version <= kVersions; ++version) is_whole |= engine->Holds(version);
    torn_count_ += is_whole ? 0 : 1;
    auto undo = UndoMemory::Open(undo_bytes.bytes());
    ASSERT_TRUE(undo.ok()) << undo.status().message();
    if (!undo->record()) {
      EXPECT_TRUE(engine->Holds(0));
      return;
    }
    EXPECT_TRUE(is_whole || undo->record()->state == UndoState::kArmed);
    const Status back = backend_->RollBack(made_.layout(), engine->memory(), &*undo, 2);
    ASSERT_TRUE(back.ok()) << back.message();
    const UndoVersions& versions = undo->record()->versions;
    EXPECT_TRUE(engine->Holds(undo->record()->state == UndoState::kDone ? versions.to : versions.from));
  }

  Random random_;
  TemporaryFolder folder_;
  std::unique_ptr<Backend> backend_ = MakeCpuBackend();
  std::unique_ptr<ObjectStore> store_;
  LiveStream made_;
  LiveMap map_;
  uint64_t places_;
  SharedBytes weights_;
  SharedBytes undo_;
  SharedBytes board_bytes_;
  Board* board_;
  std::unique_ptr<WatchingEngine> engine_;
  std::unique_ptr<CohortMember> alone_ = AloneMember();
  uint64_t killed_count_ = 0;
  uint64_t torn_count_ = 0;
};

TEST_F(SharedMemoryCrashTest, MemoryIsAVersionWhereverProcessesAreKilled) {
  SCOPED_TRACE("XORBIT_TEST_SEED=" + std::to_string(TestSeed()));
  const uint64_t lives = TestRounds(150);
  for (uint64_t life = 0; life < lives; ++life) {
    SCOPED_TRACE("life " + std::to_string(life));
    const uint64_t seed = random_();
    const Death death = RandomDeath();
    RunLife([&] { return Live(seed, death); }, death);
    ProveThatItIsAVersion();
    if (HasFailure()) return;
  }
  // The last one is not killed.
  engine_->on_call = nullptr;
  const auto receiver = Receiver::Attach(made_.stream(), *backend_, engine_->memory(), *engine_, *alone_, Options(), 0);
  ASSERT_TRUE(receiver.ok()) << receiver.status().message();
  ASSERT_TRUE((*receiver)->Sync(3).ok());
  EXPECT_TRUE((*receiver)->Verify().ok());
  EXPECT_TRUE(engine_->Holds(3));
  std::printf("%llu processes were killed, %llu between two versions, after %llu whole updates\n",
              static_cast<unsigned long long>(killed_count_), static_cast<unsigned long long>(torn_count_),
              static_cast<unsigned long long>(board_->applied.load()));
  EXPECT_GT(killed_count_, lives * 2 / 3);
  EXPECT_GT(torn_count_, lives / 15);
}

// A page of live memory that an update changes, so that an apply dies in the midst of it.
TEST_F(SharedMemoryCrashTest, SaysWhyWhereItCannotKnow) {
  uint64_t refused = 0;
  for (uint64_t life = 0; life < 20; ++life) {
    const uint64_t seed = random_();
    const Death death{Death::At::kLivePage, Between(random_, 0, engine_->bytes().size() / kPageBytes - 1)};
    RunLife([&] { return Live(seed, death); }, death);
    const UndoRecord left = *UndoMemory::Open(undo_.bytes()).value().record();
    if (left.state != UndoState::kArmed) continue;
    uint8_t* const victim = engine_->ChangingByte(left.versions.from, left.versions.to);
    ASSERT_NE(victim, nullptr);
    const uint8_t kept = *victim;
    *victim = static_cast<uint8_t>(kept ^ 0xff);
    const Buffer spoilt(engine_->bytes().begin(), engine_->bytes().end());
    engine_->on_call = nullptr;
    const auto attach = [&] {
      return Receiver::Attach(made_.stream(), *backend_, engine_->memory(), *engine_, *alone_, Options(), 0).status();
    };
    if (const Status status = attach(); status.code() == Code::kRefused) {
      ++refused;
      EXPECT_FALSE(engine_->serves());
      EXPECT_TRUE(std::ranges::equal(engine_->bytes(), spoilt));
    } else {
      ADD_FAILURE() << status.message();
    }
    *victim = kept;
    undo_.bytes()[UndoMemory::kLogOffset + 200] ^= 1;
    EXPECT_EQ(attach().code(), Code::kCorrupt);
    undo_.bytes()[UndoMemory::kLogOffset + 200] ^= 1;
    const Status status = attach();
    EXPECT_TRUE(status.ok()) << status.message();
    EXPECT_TRUE(engine_->Holds(left.versions.from));
    engine_->Stop();
  }
  EXPECT_GT(refused, 3);
}

TEST_F(SharedMemoryCrashTest, AskForMoreUndoMemoryIfALogDoesNotFit) {
  ReceiverOptions options = Options();
  options.undo_memory = undo_.bytes().first(UndoMemory::kLogOffset + 100);
  const auto receiver = Receiver::Attach(made_.stream(), *backend_, engine_->memory(), *engine_, *alone_, options, 0);
  ASSERT_TRUE(receiver.ok()) << receiver.status().message();
  const Status status = (*receiver)->Sync(kVersions);
  EXPECT_EQ(status.code(), Code::kRefused);
  EXPECT_NE(status.message().find("undo memory has room for 100"), std::string::npos) << status.message();
  EXPECT_EQ((*receiver)->state(), SyncState::kIdle);
  EXPECT_TRUE(engine_->Holds(0));
}

}  // namespace
}  // namespace xorbit
