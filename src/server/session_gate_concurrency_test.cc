// An engine that takes its time when the gate closes or opens: nobody else waits for it, and nothing is done twice meanwhile.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <thread>

#include "receive/exported_memory.h"
#include "server/testing/noting_engine.h"
#include "server/testing/served_model.h"

namespace xorbit {
namespace {

using testing::HasSubstr;

class SessionGateTest : public testing::Test {
 protected:
  SessionGateTest() {
    model_.live().PublishAll();
    ServeRequest& request = model_.request();
    request.attachment = model_.folder() / "engine.json";
    request.checkpoint.clear();
    request.engine = engine_.Options(EngineKind::kSglang, KvPolicy::kFlush);
    request.engine->call_limit = std::chrono::minutes(1);
    const Layout& layout = model_.live().layout();
    const ExportOptions options{"/xorbit-gate-test-" + std::to_string(::getpid()), request.attachment, 4 << 20};
    memory_ = ExportedMemory::Make(layout, CanonicalMap(layout), options).value();
    LoadTensors(memory_->live(), model_.live().state(0).bytes());
    EXPECT_TRUE(memory_->Publish(layout).ok());
    served_ = model_.Start();
    background_ = std::jthread([this](const std::stop_token& stop) { served_->session().Run(stop); });
    engine_.Take();
  }

  HttpReply Ask(const std::string& method, const std::string& path, const std::string& body = "") {
    HttpRequest request;
    request.method = method;
    request.path = path;
    request.body = body;
    return served_->Answer(request);
  }
  HttpReply Post(const std::string& path, const std::string& body) { return Ask("POST", path, body); }
  // The same beside the test, which is over before the fixture.
  std::jthread PostBeside(const std::string& path, const std::string& body, HttpReply* reply) {
    return std::jthread([this, path, body, reply] { *reply = Post(path, body); });
  }
  void Prepare(const std::string& id, const std::string& more) {
    const HttpReply begun = Post("/prepare_gpu_delta", R"({"session_id":")" + id + "\"," + more + "}");
    ASSERT_EQ(begun.status, 200) << begun.body;
    while (served_->session().receipt().state == SessionState::kPreparing) {
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
  }
  // Applied, with a lease that is as short as this machine, loaded as it may be, lets a session live until then. Its id.
  std::string ApplyWithLease(int lease_ms) {
    for (;; lease_ms *= 2) {
      const std::string id = "leased for " + std::to_string(lease_ms);
      Prepare(id, R"("target_version":4,"lease_ms":)" + std::to_string(lease_ms));
      if (Post("/apply_gpu_delta", OfSession(id)).status == 200) return id;
    }
  }
  static std::string OfSession(const std::string& id) { return R"({"session_id":")" + id + "\"}"; }
  void ExpectAnswers(const std::string& state, int health) {
    EXPECT_EQ(Ask("GET", "/health").status, health);
    EXPECT_THAT(Ask("GET", "/metrics").body, HasSubstr("xorbit_session_state{state=\"" + state + "\"} 1"));
    EXPECT_EQ(Ask("GET", "/server_info").status, 200);
    EXPECT_EQ(Ask("GET", "/is_paused").status, 200);
    EXPECT_THAT(Post("/get_gpu_delta_info", "{}").body, HasSubstr("\"" + state + "\""));
    EXPECT_TRUE(engine_.is_holding()) << "they were answered only after the engine";
  }
  int64_t CountOf(const std::string& path) {
    const std::vector<std::string> seen = engine_.Take();
    return std::ranges::count_if(seen, [&](const std::string& line) { return line.starts_with(path); });
  }

  ServedModel model_;
  NotingEngine engine_;
  std::unique_ptr<ExportedMemory> memory_;
  std::unique_ptr<ServedSampler> served_;
  std::jthread background_;
};

TEST_F(SessionGateTest, WhileAnEngineFlushesAllIsAnswered) {
  Prepare("s", R"("target_version":4)");
  ASSERT_EQ(Post("/apply_gpu_delta", OfSession("s")).status, 200);
  engine_.Hold("/flush_cache");
  HttpReply first;
  HttpReply second;
  std::jthread resuming = PostBeside("/resume_gpu_delta", OfSession("s"), &first);
  engine_.AwaitHeld();
  ExpectAnswers("APPLIED", 200);
  EXPECT_THAT(Post("/get_gpu_delta_status", OfSession("s")).body, HasSubstr("\"message\":\"APPLIED\""));
  EXPECT_EQ(Post("/prepare_gpu_delta", R"({"session_id":"t","target_version":2})").status, 409);
  EXPECT_EQ(Post("/weights_checker", R"({"action":"checksum"})").status, 200);
  std::jthread again = PostBeside("/resume_gpu_delta", OfSession("s"), &second);
  EXPECT_TRUE(engine_.is_holding());
  engine_.LetGo();
  resuming.join();
  again.join();
  // One of them has resumed it; the other hears that it is.
  EXPECT_EQ(std::min(first.status, second.status), 200) << first.body << second.body;
  EXPECT_EQ(std::max(first.status, second.status), 409) << first.body << second.body;
  for (const HttpReply& reply : {first, second}) EXPECT_THAT(reply.body, HasSubstr("\"state\":\"RESUMED\""));
  EXPECT_EQ(CountOf("/continue_generation"), 1);
  EXPECT_EQ(Ask("GET", "/health").status, 200);
}

TEST_F(SessionGateTest, AnAbandonedSessionIsEndedOnceAndNobodyWaits) {
  engine_.Hold("/continue_generation");
  const std::string id = ApplyWithLease(20);
  engine_.AwaitHeld();  // nobody has resumed it
  ExpectAnswers("APPLIED", 200);
  HttpReply resumed;
  std::jthread resuming = PostBeside("/resume_gpu_delta", OfSession(id), &resumed);
  engine_.LetGo();
  resuming.join();
  EXPECT_THAT(resumed.body, HasSubstr("RESUMED"));
  EXPECT_EQ(CountOf("/continue_generation"), 1);
  EXPECT_EQ(Post("/update_weights_from_gpu_delta", R"({"target_version":2})").status, 200);
}

TEST_F(SessionGateTest, ALeaseThatRunsOutWhileADriverResumesEndsNothingTwice) {
  engine_.Hold("/flush_cache");
  const std::string id = ApplyWithLease(200);
  HttpReply resumed;
  std::jthread resuming = PostBeside("/resume_gpu_delta", OfSession(id), &resumed);
  engine_.AwaitHeld();
  std::this_thread::sleep_for(std::chrono::milliseconds(300));
  EXPECT_EQ(served_->session().receipt().state, SessionState::kApplied);
  engine_.LetGo();
  resuming.join();
  EXPECT_THAT(resumed.body, HasSubstr("RESUMED"));
  EXPECT_EQ(CountOf("/continue_generation"), 1);
  EXPECT_EQ(Ask("GET", "/is_paused").body, "{\"is_paused\":false}\n");
}

// Whoever applies for longer than his lease gets a whole one after it, and no more.
TEST_F(SessionGateTest, ALeaseThatRunsOutWhileItIsAppliedCountsAfterwards) {
  constexpr std::chrono::milliseconds lease{1'000};
  Prepare("s", R"("target_version":4,"lease_ms":)" + std::to_string(lease.count()));
  engine_.Hold("/pause_generation");
  HttpReply applied;
  std::jthread applying = PostBeside("/apply_gpu_delta", OfSession("s"), &applied);
  engine_.AwaitHeld();
  std::this_thread::sleep_for(lease + lease / 2);
  engine_.LetGo();
  engine_.Hold("/continue_generation");
  applying.join();
  EXPECT_EQ(applied.status, 200) << applied.body;
  engine_.AwaitHeld();  // nobody has resumed it
  EXPECT_EQ(served_->session().receipt().state, SessionState::kApplied);
  engine_.LetGo();
}

TEST_F(SessionGateTest, PausesAndTheirEndsKeepNobodyWaiting) {
  HttpReply paused;
  engine_.Hold("/pause_generation");
  std::jthread pausing = PostBeside("/pause_generation", "{}", &paused);
  engine_.AwaitHeld();
  ExpectAnswers("IDLE", 503);
  engine_.LetGo();
  pausing.join();
  EXPECT_EQ(paused.status, 200) << paused.body;

  HttpReply going_on;
  engine_.Hold("/continue_generation");
  std::jthread continuing = PostBeside("/continue_generation", "{}", &going_on);
  engine_.AwaitHeld();
  ExpectAnswers("IDLE", 503);
  EXPECT_EQ(Ask("GET", "/is_paused").body, "{\"is_paused\":true}\n");
  HttpReply paused_again;
  std::jthread pausing_again = PostBeside("/pause_generation", "{}", &paused_again);  // waits for its turn
  engine_.LetGo();
  continuing.join();
  pausing_again.join();
  EXPECT_EQ(paused_again.status, 200) << paused_again.body;
  EXPECT_EQ(going_on.status, 200) << going_on.body;
  EXPECT_EQ(Ask("GET", "/is_paused").body, "{\"is_paused\":true}\n");
}

TEST_F(SessionGateTest, AnEngineThatHasNotGoneOnIsToldToOnceMoreWhileOthersAreAnswered) {
  engine_.Refuse("/continue_generation", 1);
  const HttpReply updated = Post("/update_weights_from_gpu_delta", R"({"target_version":4})");
  EXPECT_EQ(updated.status, 409) << updated.body;
  EXPECT_THAT(updated.body, HasSubstr("RESUMED"));
  HttpReply going_on;
  engine_.Hold("/pause_generation");
  std::jthread continuing = PostBeside("/continue_generation", "{}", &going_on);
  engine_.AwaitHeld();
  ExpectAnswers("RESUMED", 503);
  engine_.LetGo();
  continuing.join();
  EXPECT_EQ(going_on.status, 200) << going_on.body;
  EXPECT_EQ(Ask("GET", "/health").status, 200);
}

TEST_F(SessionGateTest, ATurnThatDoesNotComeIsRefusedAndNothingIsDone) {
  Prepare("s", R"("target_version":4)");
  ASSERT_EQ(Post("/apply_gpu_delta", OfSession("s")).status, 200);
  engine_.Hold("/flush_cache");
  HttpReply resumed;
  std::jthread resuming = PostBeside("/resume_gpu_delta", OfSession("s"), &resumed);
  engine_.AwaitHeld();
  const HttpReply refused = Post("/pause_generation", R"({"reason":"left behind"})");
  EXPECT_EQ(refused.status, 409);
  EXPECT_THAT(refused.body, HasSubstr("another call is still closing or opening the gate"));
  EXPECT_EQ(served_->session().receipt().state, SessionState::kApplied);
  EXPECT_TRUE(engine_.is_holding());
  engine_.Take();
  engine_.LetGo();
  resuming.join();
  EXPECT_EQ(resumed.status, 200) << resumed.body;
  EXPECT_EQ(Ask("GET", "/health").status, 200);
  EXPECT_EQ(CountOf("/pause_generation"), 0);
}

}  // namespace
}  // namespace xorbit
