// Weights that another process owns: the engine here, whose server is killed (kill -9) again and again, and which compares
// every byte of what it is let in to read. Each server is a process of its own, so that nothing but shared memory and the store
// outlives it. It dies whenever the engine's kill arrives, or at its first store to some page of the weights (which is made
// read-only for it).
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <set>
#include <thread>

#include "receive/exported_memory.h"
#include "server/testing/loading_engine.h"
#include "server/testing/served_model.h"
#include "tensor/random_live_map.h"

namespace xorbit {
namespace {

using testing::HasSubstr;

constexpr uint64_t kLives = 40;
constexpr std::chrono::microseconds kStep{200};

class AttachedSamplerTest : public testing::Test {
 protected:
  AttachedSamplerTest() {
    model_.live().PublishAll();
    model_.request().attachment = model_.folder() / "engine.json";
    model_.request().checkpoint.clear();
  }

  // An engine that has loaded version 0 into memory of its own layout.
  std::unique_ptr<ExportedMemory> StartEngine() {
    LiveMapSpec spec = RandomLiveMap(random_, layout()).spec();
    PlaceShadows(random_, layout(), &spec);
    spec.derived.clear();
    auto engine = ExportedMemory::Make(layout(), LiveMap::Make(layout(), std::move(spec)).value(), Options());
    EXPECT_TRUE(engine.ok()) << engine.status().message();
    LoadTensors((*engine)->live(), model_.live().state(0).bytes());
    EXPECT_TRUE((*engine)->Publish(layout()).ok());
    return std::move(*engine);
  }
  ExportOptions Options() { return {"/xorbit-test-" + std::to_string(::getpid()), model_.request().attachment, 4 << 20}; }
  const Layout& layout() { return model_.live().layout(); }

  static void DieHere(int /*signal*/) { ::kill(::getpid(), SIGKILL); }
  static void MakeReadOnly(MutableBytes region, uint64_t at) {
    constexpr uintptr_t kPageBytes = 4096;
    ::signal(SIGSEGV, DieHere);
    const auto page = reinterpret_cast<uintptr_t>(region.data() + at) / kPageBytes * kPageBytes;
    ASSERT_EQ(::mprotect(reinterpret_cast<void*>(page), kPageBytes, PROT_READ), 0);
  }

  // The life of a server: takes the engine from version to version until it is killed.
  int Serve(uint64_t seed, bool dies_at_a_store) {
    Random random(seed);
    const auto served = ServedSampler::Start({&model_.backend(), &PosixFileOps(), 2}, model_.store(), model_.request());
    if (!served.ok()) {
      static_cast<void>(std::fprintf(stderr, "%s\n", served.status().message().c_str()));
      return 11;
    }
    if (dies_at_a_store) {
      const std::span<const MutableBytes> regions = (*served)->sampler().memory().live().regions;
      const MutableBytes region = regions[Between(random, 0, regions.size() - 1)];
      if (!region.empty()) MakeReadOnly(region, Between(random, 0, region.size() - 1));
    }
    for (;;) {
      const auto done = (*served)->session().UpdateTo(Between(random, 0, model_.live().version_count()));
      if (!done.ok()) return 12;
    }
  }

  // One step of the engine. False if it was not let in.
  bool Step(const ExportedMemory& engine) {
    const std::optional<uint64_t> version = engine.gate().TryEnter();
    if (!version) return false;
    EXPECT_TRUE(HoldsTensors(engine.live(), model_.live().state(*version).bytes())) << "version " << *version;
    versions_seen_.insert(*version);
    engine.gate().Leave();
    return true;
  }

  bool IsTorn(const ExportedMemory& engine) {
    bool is_whole = false;
    for (uint64_t version = 0; version <= model_.live().version_count(); ++version) {
      is_whole |= HoldsTensors(engine.live(), model_.live().state(version).bytes());
    }
    return !is_whole;
  }

  // The same again takes it back.
  static void Spoil(const ExportedMemory& engine) {
    for (const MutableBytes region : engine.live().regions) {
      for (uint8_t& byte : region) byte ^= 1;
    }
  }

  Status StartServer() {
    return ServedSampler::Start({&model_.backend(), &PosixFileOps(), 2}, model_.store(), model_.request()).status();
  }

  static std::string SessionOf(uint64_t version) { return "to " + std::to_string(version); }
  // While somebody runs the server.
  static void PrepareAndWait(SamplerSession& session, uint64_t version) {
    const auto begun = session.Prepare({SessionOf(version), std::nullopt, version, std::chrono::milliseconds(0)});
    ASSERT_TRUE(begun.ok()) << begun.status().message();
    while (session.receipt().state == SessionState::kPreparing) std::this_thread::sleep_for(kStep);
  }

  ServedModel model_;
  Random random_{TestSeed()};
  std::set<uint64_t> versions_seen_;
};

TEST_F(AttachedSamplerTest, TheEngineGoesOnWhereverItsServerIsKilled) {
  SCOPED_TRACE("XORBIT_TEST_SEED=" + std::to_string(TestSeed()));
  const auto engine = StartEngine();
  EXPECT_FALSE(Step(*engine));  // nobody has proven its weights
  uint64_t killed_closed = 0;
  uint64_t torn_count = 0;
  for (uint64_t life = 0; life < kLives && !HasFailure(); ++life) {
    const uint64_t seed = random_();
    const bool dies_at_a_store = random_() % 2 == 0;
    const pid_t child = ::fork();
    if (child == 0) ::_exit(Serve(seed, dies_at_a_store));
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(60);
    const uint64_t step_count = dies_at_a_store ? 400 : Between(random_, 1, 40);  // no update may touch the page
    int state = 0;
    for (uint64_t step = 0; step < step_count && ::waitpid(child, &state, WNOHANG) == 0;) {
      ASSERT_LT(std::chrono::steady_clock::now(), deadline) << "the engine was not let in";
      step += Step(*engine) ? 1 : 0;
      std::this_thread::sleep_for(kStep);
    }
    if (!WIFSIGNALED(state)) {
      ::kill(child, SIGKILL);
      ASSERT_EQ(::waitpid(child, &state, 0), child);
    }
    ASSERT_TRUE(WIFSIGNALED(state) && WTERMSIG(state) == SIGKILL) << state;
    killed_closed += engine->gate().is_closed() ? 1 : 0;
    torn_count += IsTorn(*engine) ? 1 : 0;
    if (!engine->gate().is_closed()) Step(*engine);
  }
  const Status last = StartServer();
  EXPECT_TRUE(last.ok()) << last.message();
  EXPECT_TRUE(Step(*engine));
  EXPECT_GT(killed_closed, 2);
  EXPECT_GT(versions_seen_.size(), 2);
  EXPECT_GT(torn_count, 0);
  std::printf("%llu of %llu servers were killed with the gate closed, %llu between two versions\n",
              static_cast<unsigned long long>(killed_closed), static_cast<unsigned long long>(kLives),
              static_cast<unsigned long long>(torn_count));
}

// What another process writes where it can write is met at any moment: nothing of it is followed.
TEST_F(AttachedSamplerTest, UndoMemoryThatTheEngineWritesToChangesNoUpdate) {
  const auto engine = StartEngine();
  const Attachment attachment =
      ParseAttachmentJson(AsText(ReadWholeFile(Options().attachment, kMaxAttachmentBytes).value())).value();
  const SharedMemory segment = SharedMemory::Open(Options().name).value();
  const MutableBytes undo = segment.bytes().subspan(attachment.undo.offset_bytes, attachment.undo_bytes);
  {
    const auto served = model_.Start();
    const std::jthread running([&] { EXPECT_TRUE(served->Run().ok()); });
    for (uint64_t version = 1; version <= model_.live().version_count(); ++version) {
      PrepareAndWait(served->session(), version);
      std::ranges::fill(undo.subspan(random_() % 2 == 0 ? 0 : UndoMemory::kLogOffset), version % 2 == 0 ? 0xff : 0x01);
      ASSERT_TRUE(served->session().Apply(SessionOf(version)).ok());
      ASSERT_TRUE(served->session().Resume(SessionOf(version), /*keep_pause=*/false).ok());
      EXPECT_EQ(engine->gate().version(), version);
      EXPECT_TRUE(Step(*engine));
    }
    served->Stop();
  }
  EXPECT_THAT(StartServer().message(), HasSubstr("undo memory"));
  std::ranges::fill(undo, 0);
  EXPECT_TRUE(StartServer().ok());
}

TEST_F(AttachedSamplerTest, AServerThatIsStoppedBetweenStepsLeavesTheEngineGoing) {
  const auto engine = StartEngine();
  for (const bool is_applied : {false, true}) {
    const auto served = model_.Start();
    const std::jthread running([&] { EXPECT_TRUE(served->Run().ok()); });
    PrepareAndWait(served->session(), 3);
    if (is_applied) {
      ASSERT_TRUE(served->session().Apply(SessionOf(3)).ok());
    }
    EXPECT_EQ(engine->gate().is_closed(), is_applied);
    served->Stop();
  }
  EXPECT_TRUE(Step(*engine));
  EXPECT_EQ(engine->gate().version(), 3);
}

TEST_F(AttachedSamplerTest, AServerThatIsStoppedInAPauseSaysSo) {
  const auto engine = StartEngine();
  const auto served = model_.Start();
  ASSERT_TRUE(served->session().PauseGeneration().ok());
  served->Stop();
  ASSERT_TRUE(served->Run().ok());
  EXPECT_THAT(served->standstill(), HasSubstr("as /pause_generation has left it"));
  EXPECT_TRUE(engine->gate().is_closed());
}

TEST_F(AttachedSamplerTest, AnUpdateAfterWhichTheEngineStandsStillIsNoSuccess) {
  const auto engine = StartEngine();
  LoadingEngine server(model_.backend(), {});
  EngineLinkOptions link;
  link.endpoint = {"127.0.0.1", server.port()};
  link.flush_limit = std::chrono::milliseconds(20);
  model_.request().engine = link;
  const auto served = model_.Start();
  SamplerSession& session = served->session();
  server.AnswerWith("/flush_cache", 400, "not now");
  EXPECT_THAT(session.UpdateTo(2).status().message(), HasSubstr("stands still: the engine's /flush_cache answered 400"));
  EXPECT_EQ(session.receipt().state, SessionState::kResumed);
  EXPECT_EQ(session.version(), 2);
  EXPECT_TRUE(session.is_paused() && engine->gate().is_closed());
  EXPECT_THAT(session.UpdateTo(2).status().message(), HasSubstr("stands still"));  // although nothing is to do
  EXPECT_THAT(session.ContinueGeneration().message(), HasSubstr("stands still"));
  EXPECT_TRUE(session.is_paused() && engine->gate().is_closed());
  server.AnswerProperly();
  EXPECT_TRUE(session.ContinueGeneration().ok());
  EXPECT_FALSE(session.is_paused());
  EXPECT_TRUE(Step(*engine));
  EXPECT_TRUE(session.UpdateTo(2).ok());

  const std::jthread running([&] { EXPECT_TRUE(served->Run().ok()); });
  PrepareAndWait(session, 3);
  ASSERT_TRUE(session.Apply(SessionOf(3)).ok());
  server.AnswerWith("/continue_generation", 500, "not now");
  EXPECT_THAT(session.Resume(SessionOf(3), /*keep_pause=*/false).status().message(),
              HasSubstr("/continue_generation answered"));
  EXPECT_THAT(session.receipt().result, HasSubstr("stands still"));
  EXPECT_TRUE(session.is_paused());
  server.AnswerProperly();
  EXPECT_TRUE(session.ContinueGeneration().ok());
  EXPECT_FALSE(session.is_paused());
  served->Stop();
}

// A server that cannot be must not have paused anybody.
TEST_F(AttachedSamplerTest, TheEngineIsNotTouchedWhereThePortIsTaken) {
  const auto engine = StartEngine();
  const auto taken = HttpServer::Listen("127.0.0.1", 0, {}).value();
  model_.request().port = taken->port();
  EXPECT_FALSE(StartServer().ok());
  EXPECT_TRUE(engine->gate().is_closed());
  EXPECT_EQ(engine->gate().turn_count(), 1);
  model_.request().port = 0;
  EXPECT_TRUE(StartServer().ok());
}

TEST_F(AttachedSamplerTest, SaysWhatTheEngineHasToDo) {
  EXPECT_EQ(StartServer().code(), Code::kNotFound);
  auto engine = StartEngine();
  {
    const auto served = model_.Start();
    EXPECT_THAT(StartServer().message(), HasSubstr("another process has attached"));
    ASSERT_TRUE(served->session().UpdateTo(3).ok());
    EXPECT_TRUE(Step(*engine));
    // A step that does not end: the update fails, and the old version is served.
    ASSERT_EQ(engine->gate().TryEnter(), 3);
    const Status refused = served->session().UpdateTo(2).status();
    EXPECT_THAT(refused.message(), HasSubstr("1 of its steps are inside"));
    engine->gate().Leave();
    EXPECT_TRUE(Step(*engine));
    EXPECT_THAT(served->session().Readiness().message(), HasSubstr("catching up"));
    engine->gate().Move(77);
    EXPECT_THAT(served->session().Readiness().message(), HasSubstr("moved its weights"));
    EXPECT_THAT(served->session().UpdateTo(2).status().message(), HasSubstr("moved its weights"));
    EXPECT_TRUE(Step(*engine));
  }
  EXPECT_THAT(StartServer().message(), HasSubstr("it must write a new one"));
  engine.reset();
  EXPECT_THAT(StartServer().message(), HasSubstr("is gone: start the engine"));
  engine = StartEngine();
  Spoil(*engine);
  EXPECT_THAT(StartServer().message(), HasSubstr("start it again from a checkpoint that is one"));
  Spoil(*engine);
  const auto served = model_.Start();
  engine.reset();
  EXPECT_THAT(served->session().Readiness().message(), HasSubstr("has ended: start it again"));
  EXPECT_THAT(served->session().UpdateTo(2).status().message(), HasSubstr("has ended: start it again"));
}

}  // namespace
}  // namespace xorbit
