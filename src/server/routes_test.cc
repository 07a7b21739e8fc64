// Every route, asked without a socket: the steps of an update and their refusals, who may ask what, and where a path may lead.
#include "server/routes.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <set>
#include <thread>

#include "base/json.h"
#include "server/testing/routes_fixture.h"
#include "store/store_keys.h"

namespace xorbit {
namespace {

using testing::HasSubstr;

class RoutesTest : public RoutesFixture {};

TEST_F(RoutesTest, AnUpdateGoesStepByStep) {
  Start();
  model_.live().PublishAll();
  const HttpReply prepared =
      Post("/prepare_gpu_delta", OfSession(R"(,"base_version":0,"target_version":2,"stream_id":"run","base_fingerprint":")" +
                                           ToHex(model_.live().stream().info().base_fingerprint) + "\""));
  ASSERT_EQ(prepared.status, 200) << prepared.body;
  EXPECT_EQ(AwaitPrepared(StateOf(prepared)), "PREPARED");
  // The old version is served, nothing is paused, and the same order again changes nothing.
  EXPECT_TRUE(model_.Holds(*served_, 0));
  EXPECT_EQ(Read(Ask("GET", "/is_paused"))["is_paused"], false);
  EXPECT_EQ(StateOf(Post("/prepare_gpu_delta", OfSession(R"(,"target_version":2)"))), "PREPARED");
  // Others wait.
  const HttpReply other = Post("/prepare_gpu_delta", R"({"session_id":"t","target_version":1})");
  EXPECT_EQ(other.status, 409);
  EXPECT_NE(other.body.find("is PREPARED: abort or resume it first"), std::string::npos) << other.body;
  EXPECT_EQ(Post("/update_weights_from_gpu_delta", R"({"target_version":"latest"})").status, 409);
  EXPECT_EQ(Post("/apply_gpu_delta", R"({"session_id":"t"})").status, 409);
  EXPECT_EQ(Post("/resume_gpu_delta", OfSession()).status, 409);
  EXPECT_EQ(Post("/clear_gpu_delta_state").status, 409);

  EXPECT_EQ(StateOf(Post("/apply_gpu_delta", OfSession())), "APPLIED");
  EXPECT_TRUE(model_.Holds(*served_, 2));
  EXPECT_EQ(Read(Ask("GET", "/is_paused"))["is_paused"], true);
  EXPECT_EQ(Post("/weights_checker", R"({"action":"checksum"})").status, 409);  // nobody reads yet
  EXPECT_EQ(Post("/continue_generation").status, 409);                          // that is resume's to do
  EXPECT_EQ(Post("/abort_gpu_delta", OfSession()).status, 409);
  EXPECT_EQ(Post("/apply_gpu_delta", OfSession()).status, 409);
  EXPECT_EQ(StateOf(Post("/resume_gpu_delta", OfSession())), "RESUMED");
  EXPECT_EQ(Read(Ask("GET", "/is_paused"))["is_paused"], false);
  EXPECT_EQ(Read(Ask("GET", "/get_weight_version"))["weight_version"], "2");
  const HttpReply checked = Post("/weights_checker", R"({"action":"checksum"})");
  EXPECT_EQ(checked.status, 200) << checked.body;
  EXPECT_EQ(StateOf(Post("/clear_gpu_delta_state")), "IDLE");
}

TEST_F(RoutesTest, WhatTheCheckerHasFoundCountsUntilItFindsOtherwise) {
  Start();
  model_.live().PublishAll();
  const std::span<const MutableBytes> regions = served_->sampler().memory().live().regions;
  uint8_t& byte = std::ranges::find_if(regions, [](MutableBytes region) { return !region.empty(); })->front();
  byte ^= 1;
  EXPECT_EQ(Post("/weights_checker", R"({"action":"checksum"})").status, 409);
  EXPECT_EQ(Ask("GET", "/health").status, 503);
  EXPECT_THAT(Ask("GET", "/health").body, HasSubstr("live memory is not version 0"));
  EXPECT_THAT(std::string(Read(Post("/get_gpu_delta_info"))["participants"][0]["damage"]), HasSubstr("not version 0"));
  EXPECT_EQ(Post("/update_weights_from_gpu_delta", R"({"target_version":2})").status, 409);
  EXPECT_EQ(Post("/prepare_gpu_delta", OfSession(R"(,"target_version":2)")).status, 409);
  byte ^= 1;
  EXPECT_EQ(Post("/weights_checker", R"({"action":"checksum"})").status, 200);
  EXPECT_EQ(Ask("GET", "/health").status, 200);
  EXPECT_FALSE(Read(Post("/get_gpu_delta_info"))["participants"][0].contains("damage"));
  EXPECT_EQ(Post("/update_weights_from_gpu_delta", R"({"target_version":2})").status, 200);
  EXPECT_TRUE(model_.Holds(*served_, 2));
}

// An update would carry it along, also one that was prepared before.
TEST_F(RoutesTest, WhatTheCheckerFindsStopsWhatIsPrepared) {
  Start();
  model_.live().PublishAll();
  ASSERT_EQ(Post("/prepare_gpu_delta", OfSession(R"(,"target_version":2)")).status, 200);
  ASSERT_EQ(AwaitPrepared(), "PREPARED");
  const std::span<const MutableBytes> regions = served_->sampler().memory().live().regions;
  uint8_t& byte = std::ranges::find_if(regions, [](MutableBytes region) { return !region.empty(); })->front();
  byte ^= 1;
  EXPECT_EQ(Post("/weights_checker", R"({"action":"checksum"})").status, 409);
  const HttpReply refused = Post("/apply_gpu_delta", OfSession());
  EXPECT_EQ(refused.status, 409);
  EXPECT_THAT(refused.body, HasSubstr("live memory is not version 0"));
  EXPECT_EQ(StateOf(refused), "FAILED");
  EXPECT_EQ(Read(refused)["participants"][0]["applied_version"], 0);
  EXPECT_FALSE(served_->session().is_paused());
  EXPECT_EQ(Ask("GET", "/health").status, 503);
  byte ^= 1;
  EXPECT_EQ(Post("/weights_checker", R"({"action":"checksum"})").status, 200);
  EXPECT_EQ(Post("/update_weights_from_gpu_delta", R"({"target_version":2})").status, 200);
  EXPECT_TRUE(model_.Holds(*served_, 2));
}

// Whatever step its driver dies at, the sampler goes back to serving one whole version.
TEST_F(RoutesTest, ASessionThatIsLeftAloneEndsByItself) {
  Start();
  model_.live().PublishAll();
  const std::string order = R"(,"target_version":2,"lease_ms":20)";
  const auto await = [&](std::string_view state) {
    while (StateOf(Post("/get_gpu_delta_info")) != state) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  };
  ASSERT_EQ(Post("/prepare_gpu_delta", OfSession(order)).status, 200);
  await("ABORTED");
  EXPECT_THAT(Post("/apply_gpu_delta", OfSession()).body, HasSubstr("the driver has given no sign for 20 ms"));
  EXPECT_TRUE(model_.Holds(*served_, 0));

  ASSERT_EQ(Post("/prepare_gpu_delta", R"({"session_id":"t","target_version":2,"lease_ms":2000})").status, 200);
  await("PREPARED");
  const auto lease_ms = [&] {
    return Read(Post("/get_gpu_delta_info"))["participants"][0].value("lease_left_ms", uint64_t{9'999});
  };
  EXPECT_LE(lease_ms(), 2'000U);
  ASSERT_EQ(Post("/apply_gpu_delta", R"({"session_id":"t"})").status, 200);
  await("RESUMED");
  EXPECT_EQ(lease_ms(), 9'999U);  // none
  EXPECT_EQ(Read(Ask("GET", "/is_paused"))["is_paused"], false);
  EXPECT_TRUE(model_.Holds(*served_, 2));

  ASSERT_EQ(Post("/prepare_gpu_delta", R"({"session_id":"u","target_version":0,"lease_ms":0})").status, 200);
  await("PREPARED");
  std::this_thread::sleep_for(std::chrono::milliseconds(50));
  EXPECT_EQ(StateOf(Post("/get_gpu_delta_info")), "PREPARED");
}

TEST_F(RoutesTest, AWrongOrderIsRefusedAndChangesNothing) {
  Start();
  model_.live().PublishAll();
  for (const std::string more : {
           R"(,"base_version":1,"target_version":2)",
           R"(,"target_version":0)",
           R"(,"target_version":99)",
           R"(,"target_version":2,"stream_id":"other")",
           R"(,"target_version":2,"stream_id":"run","base_fingerprint":"00")",
           R"(,"target_version":2,"plan_digest":"00")",
           R"(,"target_version":2,"participants":[{"identity":{"engine_id":"engine-a","pid":1,"start_ticks":1}}])",
           R"(,"manifest_path":"nowhere.json")",
       }) {
    const HttpReply reply = Post("/prepare_gpu_delta", OfSession(more));
    EXPECT_EQ(reply.status, 409) << more;
    EXPECT_EQ(StateOf(reply), "IDLE") << more;
  }
  EXPECT_EQ(Post("/update_weights_from_gpu_delta", R"({"target_version":2,"base_fingerprint":"00"})").status, 409);
  EXPECT_TRUE(model_.Holds(*served_, 0));
  EXPECT_EQ(Post("/prepare_gpu_delta", R"({"target_version":2})").status, 400);
  EXPECT_EQ(Post("/prepare_gpu_delta", OfSession()).status, 400);
  EXPECT_EQ(Post("/get_gpu_delta_info", R"({"engine_id":"engine-b"})").status, 409);
  EXPECT_EQ(Read(Ask("GET", "/get_weight_version"))["weight_version"], "0");
}

TEST_F(RoutesTest, AbortKeepsServingAndAnotherSessionMayFollow) {
  Start();
  model_.live().PublishAll();
  ASSERT_EQ(Post("/prepare_gpu_delta", OfSession(R"(,"target_version":2)")).status, 200);
  EXPECT_EQ(StateOf(Post("/abort_gpu_delta", OfSession())), "ABORTED");
  EXPECT_TRUE(model_.Holds(*served_, 0));
  const HttpReply one_call = Post("/update_weights_from_gpu_delta", R"({"target_version":"latest"})");
  EXPECT_EQ(StateOf(one_call), "RESUMED") << one_call.body;
  EXPECT_TRUE(model_.Holds(*served_, 4));
  EXPECT_EQ(StateOf(Post("/update_weights_from_gpu_delta", R"({"target_version":4})")), "RESUMED");  // nothing to do
  EXPECT_EQ(StateOf(Post("/update_weights_from_gpu_delta", R"({"target_version":1})")), "RESUMED");  // and back
  EXPECT_TRUE(model_.Holds(*served_, 1));
  EXPECT_EQ(Read(Ask("GET", "/is_paused"))["is_paused"], false);
}

TEST_F(RoutesTest, ParticipantsAreRecognised) {
  Start();
  model_.live().PublishAll();
  const Json identity = Read(Post("/get_gpu_delta_info", R"({"engine_id":"engine-a"})"))["participants"][0]["identity"];
  const std::string participants = R"(,"target_version":1,"participants":[{"identity":)" + identity.dump() + "}]";
  EXPECT_EQ(Post("/prepare_gpu_delta", OfSession(participants)).status, 200);
}

TEST_F(RoutesTest, AManifestIsReadInTheStoreOnly) {
  Start();
  model_.live().PublishAll();
  const std::string inside = ManifestKey("run", {0, 1, "t"});
  ASSERT_TRUE(fs::exists(model_.folder() / "store" / inside));
  fs::copy(model_.folder() / "store" / inside, model_.folder() / "outside.json");
  fs::create_symlink(model_.folder() / "outside.json", model_.folder() / "store" / "link.json");
  for (const std::string& path :
       {std::string("../outside.json"), (model_.folder() / "outside.json").string(), std::string("run/../../outside.json"),
        std::string("link.json"), std::string("/etc/passwd"), std::string("run"), std::string("."), std::string("")}) {
    const HttpReply reply = Post("/prepare_gpu_delta", OfSession(R"(,"manifest_path":")" + path + "\""));
    EXPECT_EQ(reply.status, 409) << path;
    EXPECT_THAT(reply.body, HasSubstr("names nothing in this sampler's store")) << path;
  }
  const std::string order = OfSession(R"(,"manifest_path":")" + inside + "\"");
  EXPECT_EQ(Post("/prepare_gpu_delta", OfSession(R"(,"manifest_sha256":"00","manifest_path":")" + inside + "\"")).status, 409);
  EXPECT_EQ(Post("/prepare_gpu_delta", order).status, 200);
  EXPECT_EQ(AwaitPrepared(), "PREPARED");
}

TEST_F(RoutesTest, PauseClosesTheGateUntilContinue) {
  Start();
  model_.live().PublishAll();
  EXPECT_EQ(Post("/pause_generation", R"({"mode":"sometimes"})").status, 400);
  EXPECT_EQ(Post("/pause_generation", R"({"mode":"in_place"})").status, 200);
  EXPECT_EQ(Post("/pause_generation").status, 200);  // once is enough
  EXPECT_EQ(Post("/weights_checker", R"({"action":"checksum"})").status, 409);
  // An update while paused leaves it paused.
  EXPECT_EQ(Post("/update_weights_from_gpu_delta", R"({"target_version":3})").status, 200);
  EXPECT_EQ(Read(Ask("GET", "/is_paused"))["is_paused"], true);
  EXPECT_EQ(Post("/continue_generation").status, 200);
  EXPECT_EQ(Post("/weights_checker", R"({"action":"checksum"})").status, 200);
  // Resume may leave the gate closed.
  ASSERT_EQ(Post("/prepare_gpu_delta", OfSession(R"(,"target_version":1)")).status, 200);
  ASSERT_EQ(AwaitPrepared(), "PREPARED");
  ASSERT_EQ(Post("/apply_gpu_delta", OfSession()).status, 200);
  EXPECT_EQ(Post("/resume_gpu_delta", OfSession(R"(,"keep_pause":true)")).status, 200);
  EXPECT_EQ(Post("/weights_checker", R"({"action":"checksum"})").status, 409);
  EXPECT_EQ(Post("/continue_generation").status, 200);
  EXPECT_EQ(Post("/weights_checker", R"({"action":"checksum"})").status, 200);
}

TEST_F(RoutesTest, RequestsSayWhichVersionTheyNeed) {
  Start();
  const HttpReply reply = Ask("GET", "/model_info", R"({"weight_version":{"min_version":3}})");
  EXPECT_EQ(reply.status, 409);
  EXPECT_EQ(Read(reply)["type"], "WeightVersionNotReady");
  EXPECT_EQ(Read(reply)["applied"], 0U);
  EXPECT_EQ(Ask("GET", "/model_info", R"({"weight_version":{"exact_version":1}})").status, 409);
  EXPECT_EQ(Ask("GET", "/model_info", R"({"weight_version":{"exact_version":0}})").status, 200);
  EXPECT_EQ(Post("/update_weight_version", R"({"new_version":"0"})").status, 200);
  EXPECT_EQ(Post("/update_weight_version", R"({"new_version":"5"})").status, 409);
}

TEST_F(RoutesTest, ItIsNotReadyBeforeItHasCaughtUp) {
  model_.live().PublishAll();
  Start();
  const HttpReply reply = Ask("GET", "/health");
  EXPECT_EQ(reply.status, 503);
  EXPECT_THAT(reply.body, HasSubstr("version 0 of 4"));
  EXPECT_EQ(Post("/update_weights_from_gpu_delta", R"({"target_version":"latest"})").status, 200);
  EXPECT_EQ(Ask("GET", "/health").status, 200);
  // An engine that goes back, for an evaluation, was current.
  EXPECT_EQ(Post("/update_weights_from_gpu_delta", R"({"target_version":2})").status, 200);
  EXPECT_EQ(Ask("GET", "/health").status, 200);
}

TEST_F(RoutesTest, ADamagedDeltaFailsAndTheOldVersionIsServed) {
  Start();
  model_.live().PublishAll();
  size_t damaged = 0;
  for (const auto& entry : fs::recursive_directory_iterator(model_.folder() / "store")) {
    if (entry.path().extension() != ".xob") continue;
    const UniqueFd file = PosixFileOps().OpenForWrite(entry.path()).value();
    const uint8_t bytes[] = {0xff, 0xfe, 0xfd, 0xfc};
    ASSERT_TRUE(PosixFileOps().Pwrite(file, bytes, fs::file_size(entry.path()) / 2).ok());
    ++damaged;
  }
  ASSERT_GT(damaged, 0U);
  ASSERT_EQ(Post("/prepare_gpu_delta", OfSession(R"(,"target_version":3)")).status, 200);
  EXPECT_EQ(AwaitPrepared(), "FAILED");
  EXPECT_EQ(Post("/update_weights_from_gpu_delta", R"({"target_version":3})").status, 409);
  EXPECT_TRUE(model_.Holds(*served_, 0));
  EXPECT_EQ(Post("/weights_checker", R"({"action":"checksum"})").status, 200);
}

TEST_F(RoutesTest, TokensOpenWhatTheirRoleMay) {
  model_.request().access = {"boss", "guest"};
  Start();
  EXPECT_EQ(Ask("GET", "/health").status, 200);
  for (const std::string authorization : {"", "boss", "Bearer ", "Bearer bos", "Bearer bosss", "Basic boss"}) {
    EXPECT_EQ(Ask("GET", "/model_info", "", authorization).status, 401) << authorization;
  }
  EXPECT_EQ(Ask("GET", "/model_info", "", "Bearer guest").status, 200);
  EXPECT_EQ(Ask("POST", "/pause_generation", "", "Bearer guest").status, 401);
  EXPECT_EQ(Ask("POST", "/pause_generation", "", "Bearer boss").status, 200);
}

TEST_F(RoutesTest, MetricsTellWhatHappened) {
  Start();
  model_.live().PublishAll();
  EXPECT_THAT(Ask("GET", "/metrics").body, HasSubstr("\nxorbit_version_lag 4\n"));
  EXPECT_EQ(Post("/update_weights_from_gpu_delta", R"({"target_version":3})").status, 200);
  EXPECT_EQ(Post("/apply_gpu_delta", OfSession()).status, 409);
  const HttpReply reply = Ask("GET", "/metrics");
  EXPECT_TRUE(reply.content_type.starts_with("text/plain"));
  for (const std::string_view line :
       {"xorbit_applied_version 3", "xorbit_version_lag 1", "xorbit_updates_total{result=\"applied\"} 1",
        "xorbit_updates_total{result=\"failed\"} 0", "xorbit_replies_total{status=\"409\"} 1",
        "xorbit_session_state{state=\"RESUMED\"} 1", "xorbit_paused 0"}) {
    EXPECT_THAT(reply.body, HasSubstr("\n" + std::string(line) + "\n"));
  }
  EXPECT_THAT(reply.body, HasSubstr("xorbit_pause_phase_seconds_total{phase=\"apply\"}"));
}

TEST_F(RoutesTest, EveryRequestIsLogged) {
  std::string lines;
  model_.request().log = [&](const std::string& line) { lines += line + "\n"; };
  Start();
  HttpRequest request;
  request.method = "GET";
  request.path = "/no\"where";
  request.sync_id = "step-7";
  served_->Answer(request);
  EXPECT_THAT(lines, HasSubstr(R"("sync_id":"step-7","method":"GET","path":"/no\"where","status":404)"));
}

TEST_F(RoutesTest, AFencedSamplerGetsNoTraffic) {
  Start();
  EXPECT_EQ(Post("/pause_generation").status, 200);
  EXPECT_EQ(Ask("GET", "/health").status, 200);  // a pause ends by itself
  EXPECT_EQ(Post("/pause_generation", R"({"reason":"left behind"})").status, 200);
  EXPECT_THAT(Ask("GET", "/health").body, HasSubstr("fenced: left behind"));
  EXPECT_EQ(Ask("GET", "/health").status, 503);
  EXPECT_EQ(Post("/update_weights_from_gpu_delta", R"({"target_version":0})").status, 200);
  EXPECT_EQ(Ask("GET", "/health").status, 503);
  EXPECT_EQ(Post("/continue_generation").status, 200);
  EXPECT_EQ(Ask("GET", "/health").status, 200);
}

TEST_F(RoutesTest, WhatADriverCallsCurrentIsReady) {
  model_.live().PublishAll();
  Start();
  EXPECT_EQ(Post("/update_weights_from_gpu_delta", R"({"target_version":1})").status, 200);
  EXPECT_EQ(Ask("GET", "/health").status, 503);
  EXPECT_EQ(Post("/update_weights_from_gpu_delta", R"({"target_version":1,"is_current":true})").status, 200);
  EXPECT_EQ(Ask("GET", "/health").status, 200);
}

TEST_F(RoutesTest, WhoAsksTooOftenWaitsAndIsCounted) {
  model_.request().requests_per_second = 2;
  model_.request().access.admin_token = "boss";
  Start();
  const auto admin = [&] { return Ask("POST", "/pause_generation", "{}", "Bearer boss"); };
  HttpReply refused = Post("/pause_generation");
  EXPECT_EQ(refused.status, 401);
  while (refused.status == 401) refused = Post("/pause_generation");  // the strangers' share is used up
  EXPECT_EQ(refused.status, 429);
  EXPECT_EQ(refused.retry_after_seconds, 1);
  EXPECT_EQ(Ask("GET", "/health").status, 200);  // which is not that of who asks for it
  EXPECT_EQ(admin().status, 200);
  const std::string metrics = Ask("GET", "/metrics", "", "Bearer boss").body;
  EXPECT_THAT(metrics, HasSubstr("xorbit_refusals_total{reason=\"rate\"} 1"));
  EXPECT_THAT(metrics, HasSubstr("xorbit_refusals_total{reason=\"token\"} "));
  EXPECT_THAT(metrics, HasSubstr("xorbit_pause_phase_seconds_total{phase=\"flush\"} 0"));
}

TEST_F(RoutesTest, EveryRouteAnswers) {
  Start();
  std::set<std::pair<std::string_view, std::string_view>> seen;
  for (const Route& route : AllRoutes()) {
    EXPECT_TRUE(seen.insert({route.method, route.path}).second) << route.path;
    EXPECT_FALSE(route.summary.empty());
    const HttpReply reply = Ask(route.method, std::string(route.path), "");
    EXPECT_TRUE(route.path == "/metrics" || Read(reply).is_object()) << route.path;
    EXPECT_EQ(reply.status == 501, route.handler == nullptr || route.path == "/weights_checker") << route.path;
    EXPECT_EQ(Ask("DELETE", std::string(route.path)).status, 405) << route.path;
    const int expected = route.handler == nullptr ? 501 : 400;
    EXPECT_EQ(Ask(route.method, std::string(route.path), "{").status, expected) << route.path;
  }
  EXPECT_EQ(Ask("GET", "/").status, 404);
  EXPECT_EQ(Ask("GET", "/../health").status, 404);
}

}  // namespace
}  // namespace xorbit
