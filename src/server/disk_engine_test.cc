// What is known of the engine beside a checkpoint on the disk: engines that fail at any step of a load, that die, that are
// restarted, and that say what they hold, or do not.
#include "server/disk_engine.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <thread>
#include <utility>
#include <vector>

#include "server/testing/disk_fixture.h"

namespace xorbit {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;

class DiskEngineTest : public DiskFixture {
 protected:
  DiskEngineTest() { model_.live().PublishAll(); }
};

TEST_F(DiskEngineTest, ALoadThatFailsLeavesVllmStandingUntilOneSucceeds) {
  const auto sampler = Open(EngineKind::kVllm);
  ASSERT_TRUE(sampler.ok()) << sampler.status().message();
  EXPECT_THAT(engine_.Take(),
              ElementsAre("/pause", "/collective_rpc", "/reset_prefix_cache", "/update_weight_version", "/resume"));
  ASSERT_EQ(Post(**sampler, "/pull_weights", R"({"target_version":2})").status, 200);
  engine_.AnswerWith("/collective_rpc", 200, R"({"success":false,"message":"out of memory"})");
  const HttpReply failed = Post(**sampler, "/update_weights_from_disk", "");
  EXPECT_THAT(failed.body, HasSubstr("out of memory"));
  EXPECT_THAT(failed.body, HasSubstr("the engine is left paused"));
  EXPECT_THAT(engine_.Take(), ElementsAre("/pause", "/collective_rpc"));
  EXPECT_THAT((*sampler)->engine().Readiness().message(), HasSubstr("nobody knows what the engine holds"));
  EXPECT_EQ(Post(**sampler, "/continue_generation", "").status, 409);
  engine_.AnswerProperly();
  EXPECT_EQ(Post(**sampler, "/update_weights_from_disk", "").status, 200);
  EXPECT_EQ(Health(**sampler), 200);
  EXPECT_EQ(engine_.loaded(), DigestOf(2));
}

TEST_F(DiskEngineTest, WhatFailsAroundALoadIsToldApart) {
  const auto sampler = Open(EngineKind::kVllm);
  ASSERT_TRUE(sampler.ok()) << sampler.status().message();
  const auto load = [&] {
    engine_.Take();
    return Post(**sampler, "/update_weights_from_disk", "");
  };
  // Not asked to load: it goes on with what it had.
  engine_.AnswerWith("/pause", 500, "");
  EXPECT_EQ(load().status, 409);
  EXPECT_THAT(engine_.Take(), ElementsAre("/pause", "/resume"));
  EXPECT_EQ(Health(**sampler), 200);
  // Where there is no such endpoint nothing can be paused.
  engine_.AnswerWith("/pause", 404, R"({"detail":"Not Found"})");
  const HttpReply absent = load();
  EXPECT_EQ(absent.status, 501);
  EXPECT_THAT(absent.body, AllOf(HasSubstr("VLLM_SERVER_DEV_MODE=1"), Not(HasSubstr("may be paused"))));
  EXPECT_THAT(engine_.Take(), ElementsAre("/pause"));
  EXPECT_EQ(Health(**sampler), 200);
  // With a cache of other weights it must not go on.
  engine_.AnswerProperly();
  engine_.AnswerWith("/reset_prefix_cache", 500, "");
  EXPECT_THAT(load().body, HasSubstr("the engine is left paused"));
  EXPECT_THAT(engine_.Take(), ElementsAre("/pause", "/collective_rpc", "/reset_prefix_cache"));
  EXPECT_EQ(Health(**sampler), 503);
  // A label is no reason to stand still.
  engine_.AnswerProperly();
  engine_.AnswerWith("/update_weight_version", 404, "");
  EXPECT_EQ(load().status, 200);
  EXPECT_EQ(engine_.Take().back(), "/resume");
  EXPECT_EQ(Health(**sampler), 200);
  EXPECT_FALSE((*sampler)->engine().names_version());
  EXPECT_THAT(Ask(**sampler, "GET", "/server_info", "").body, HasSubstr("/update_weight_version answered 404"));
}

TEST_F(DiskEngineTest, APauseOfATrainerLastsUntilItSaysSo) {
  const auto sampler = Open(EngineKind::kVllm);
  ASSERT_TRUE(sampler.ok()) << sampler.status().message();
  ASSERT_EQ(Post(**sampler, "/pause_generation", R"({"mode":"retract"})").status, 200);
  engine_.Take();
  EXPECT_EQ(Post(**sampler, "/update_weights_from_disk", "").status, 200);
  EXPECT_THAT(engine_.Take(), ElementsAre("/pause", "/collective_rpc", "/reset_prefix_cache", "/update_weight_version"));
  engine_.AnswerWith("/pause", 500, "");
  EXPECT_EQ(Post(**sampler, "/update_weights_from_disk", "").status, 409);
  EXPECT_THAT(engine_.Take(), ElementsAre("/pause"));
  engine_.AnswerProperly();
  EXPECT_EQ(Post(**sampler, "/continue_generation", "").status, 200);
  engine_.Take();
  EXPECT_EQ(Post(**sampler, "/update_weights_from_disk", "").status, 200);
  EXPECT_EQ(engine_.Take().back(), "/resume");
}

TEST_F(DiskEngineTest, AnEngineThatWantsAnotherKeyIsNotTakenForOneThatSaysNothing) {
  engine_.AnswerWith("/v1/models", 401, R"({"error":"Unauthorized"})");
  EXPECT_THAT(Open(EngineKind::kVllm).status().message(), HasSubstr("--engine-token-file"));
  EXPECT_THAT(engine_.Take(), ElementsAre());
  engine_.AnswerWith("/model_info", 401, R"({"error":"Unauthorized"})");
  const auto sampler = Open();
  ASSERT_TRUE(sampler.ok()) << sampler.status().message();
  EXPECT_THAT((*sampler)->engine().label_error(), HasSubstr("/model_info answered 401"));
}

TEST_F(DiskEngineTest, AtStartTheErrorSaysThatItIsLeftPaused) {
  engine_.AnswerWith("/collective_rpc", 200, "<html>please log in</html>");
  EXPECT_THAT(Open(EngineKind::kVllm).status().message(), HasSubstr("the engine is left paused"));
}

TEST_F(DiskEngineTest, AnEngineThatIsRestartedOrGoneIsNotReady) {
  const auto sampler = Open();
  ASSERT_TRUE(sampler.ok()) << sampler.status().message();
  EXPECT_TRUE((*sampler)->engine().names_version());
  EXPECT_EQ(Health(**sampler), 200);
  engine_.Restart();
  const HttpReply health = Ask(**sampler, "GET", "/health", "");
  EXPECT_EQ(health.status, 503);
  EXPECT_THAT(health.body, HasSubstr("it was restarted, or loaded by somebody else"));
  EXPECT_EQ((*sampler)->version(), std::nullopt);
  EXPECT_EQ(Post(**sampler, "/update_weights_from_disk", "").status, 200);
  EXPECT_EQ(Health(**sampler), 200);
  engine_.Kill();
  EXPECT_THAT(Ask(**sampler, "GET", "/health", "").body, HasSubstr("the engine is not there"));
  engine_.Restart();
  EXPECT_EQ(Health(**sampler), 503);
}

TEST_F(DiskEngineTest, OneThatNamesNoVersionIsLostWhenItIsNotThere) {
  engine_.AnswerWith("/model_info", 404, "");
  const auto sampler = Open();
  ASSERT_TRUE(sampler.ok()) << sampler.status().message();
  EXPECT_EQ(Health(**sampler), 200);
  engine_.Kill();
  EXPECT_EQ(Health(**sampler), 503);
  engine_.Restart();
  EXPECT_EQ(Health(**sampler), 503);  // nobody can tell that it is another
  EXPECT_EQ(Post(**sampler, "/update_weights_from_disk", "").status, 200);
  EXPECT_EQ(Health(**sampler), 200);
}

TEST_F(DiskEngineTest, VllmMustHaveBeenStartedWithTheCheckpoint) {
  const auto models = [](const fs::path& root) {
    return R"({"object":"list","data":[{"id":"m","max_model_len":1,"permission":[{"id":"p"}],"root":")" + root.string() +
           R"("}]})";
  };
  for (const fs::path& other : {fs::path("Qwen/Qwen3-4B"), fs::path("/"), model_.folder().path()}) {
    engine_.AnswerWith("/v1/models", 200, models(other));
    EXPECT_THAT(Open(EngineKind::kVllm).status().message(), HasSubstr("the engine loads what it was started with"));
    EXPECT_THAT(engine_.Take(), ElementsAre());
  }
  engine_.AnswerWith("/v1/models", 200, models(checkpoint_ / "." / ""));
  EXPECT_TRUE(Open(EngineKind::kVllm).ok());
}

TEST_F(DiskEngineTest, OneThatNamesAnotherVersionHasNotLoadedThisOne) {
  engine_.AnswerWith("/model_info", 200, R"({"weight_version":"default"})");
  EXPECT_THAT(Open().status().message(), HasSubstr("and names 'default'"));
}

// What a proxy, or an engine in trouble, may answer in between.
const std::pair<int, const char*> kTellingNothing[] = {{500, "x"},  {503, ""},       {401, R"({"error":"no key"})"},
                                                       {200, "[]"}, {200, "<html>"}, {200, ""}};

TEST_F(DiskEngineTest, AReplyThatTellsNothingIsNoNewsOfTheEngine) {
  const auto sampler = Open();
  ASSERT_TRUE(sampler.ok()) << sampler.status().message();
  for (const auto& [status, body] : kTellingNothing) {
    engine_.AnswerWith("/model_info", status, body);
    EXPECT_EQ(Health(**sampler), 503) << status << body;
    EXPECT_EQ((*sampler)->version(), 0) << status << body;
    engine_.AnswerProperly();
    EXPECT_EQ(Health(**sampler), 200) << status << body;
  }
}

TEST_F(DiskEngineTest, OneThatCouldNotBeAskedWhenItHadLoadedIsAskedAgain) {
  const auto sampler = Open();
  ASSERT_TRUE(sampler.ok()) << sampler.status().message();
  for (const auto& [status, body] : kTellingNothing) {
    engine_.AnswerWith("/model_info", status, body);
    EXPECT_EQ(Post(**sampler, "/update_weights_from_disk", "").status, 200);
    EXPECT_TRUE((*sampler)->engine().names_version()) << status << body;
    engine_.AnswerProperly();
    EXPECT_EQ(Health(**sampler), 200);
    EXPECT_EQ((*sampler)->engine().label_error(), "");
    engine_.Restart();
    EXPECT_EQ(Health(**sampler), 503) << status << body;
  }
}

TEST_F(DiskEngineTest, OneThatBeginsToNameItsVersionIsWatchedFromThenOn) {
  for (const int status : {500, 404}) {
    engine_.AnswerWith("/model_info", status, "");
    const auto sampler = Open();
    ASSERT_TRUE(sampler.ok()) << sampler.status().message();
    EXPECT_EQ(Health(**sampler), 200);
    EXPECT_FALSE((*sampler)->engine().names_version());
    engine_.AnswerProperly();
    EXPECT_EQ(Health(**sampler), 200);
    EXPECT_TRUE((*sampler)->engine().names_version());
    engine_.Restart();
    EXPECT_EQ(Health(**sampler), 503);
  }
}

TEST_F(DiskEngineTest, OneThatNamesItsVersionAgainIsKnownAgain) {
  const auto sampler = Open();
  ASSERT_TRUE(sampler.ok()) << sampler.status().message();
  for (const char* other : {"{}", R"({"weight_version":"default"})", R"({"weight_version":7})", R"({"weight_version":""})"}) {
    engine_.AnswerWith("/model_info", 200, other);
    EXPECT_EQ(Health(**sampler), 503) << other;
    EXPECT_EQ((*sampler)->version(), std::nullopt) << other;
    engine_.AnswerWith("/model_info", 500, "");
    EXPECT_EQ(Health(**sampler), 503) << other;
    EXPECT_EQ((*sampler)->version(), std::nullopt) << other;
    engine_.AnswerProperly();
    EXPECT_EQ(Health(**sampler), 200) << other;
    EXPECT_EQ((*sampler)->version(), 0) << other;
  }
  // What it names is no proof after a load that failed.
  engine_.AnswerWith("/update_weights_from_disk", 500, "");
  EXPECT_NE(Post(**sampler, "/update_weights_from_disk", "").status, 200);
  engine_.AnswerProperly();
  EXPECT_EQ(Health(**sampler), 503);
}

TEST_F(DiskEngineTest, HoweverManyAskForReadinessTheEngineIsAskedOnce) {
  store_ = OpenFolderStore(PosixFileOps(), root_).value();
  DiskSamplerOptions options = Options();
  options.engine.answer_kept = std::chrono::hours(1);
  const auto sampler = DiskSampler::Open(runtime(), *store_, options);
  ASSERT_TRUE(sampler.ok()) << sampler.status().message();
  for (int load = 0; load < 2; ++load) {
    const uint64_t before = engine_.question_count();
    {
      std::vector<std::jthread> threads;
      for (int i = 0; i < 8; ++i) {
        threads.emplace_back([&] {
          for (int j = 0; j < 10; ++j) EXPECT_EQ(Health(**sampler), 200);
        });
      }
    }
    EXPECT_EQ(engine_.question_count(), before + 1);
    // What was answered before a load says nothing of what is held after it.
    EXPECT_EQ(Post(**sampler, "/update_weights_from_disk", "").status, 200);
  }
}

}  // namespace
}  // namespace xorbit
