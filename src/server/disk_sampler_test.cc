// A sampler on the disk, over its routes: updates from a stream and from weight_v folders, what others do to the checkpoint
// meanwhile, and requests that ask for more than there is.
#include "server/disk_sampler.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <thread>

#include "server/served_disk.h"
#include "server/testing/disk_fixture.h"

namespace xorbit {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

class DiskSamplerTest : public DiskFixture {};

TEST_F(DiskSamplerTest, AStreamIsPulledAndTheEngineLoadsIt) {
  model_.live().PublishAll();
  const auto sampler = Open();
  ASSERT_TRUE(sampler.ok()) << sampler.status().message();
  EXPECT_EQ(engine_.loaded(), DigestOf(0));
  EXPECT_EQ((*sampler)->source_name(), "run");
  HttpReply reply = Post(**sampler, "/pull_weights", R"({"target_version":3})");
  ASSERT_EQ(reply.status, 200) << reply.body;
  EXPECT_EQ(engine_.loaded(), DigestOf(0));  // it goes on with what it has
  EXPECT_THAT(reply.body, HasSubstr(R"("weight_version":"0","disk_version":"3")"));
  EXPECT_EQ(Post(**sampler, "/update_weights_from_disk", R"({"weight_version":"2"})").status, 409);
  reply = Post(**sampler, "/update_weights_from_disk", R"({"weight_version":"3","flush_cache":false})");
  ASSERT_EQ(reply.status, 200) << reply.body;
  EXPECT_EQ(engine_.loaded(), DigestOf(3));
  EXPECT_THAT(engine_.last_load(), HasSubstr(R"("weight_version":"3","flush_cache":false)"));
  ASSERT_EQ(Post(**sampler, "/pull_weights", R"({"target_version":"latest"})").status, 200);
  ASSERT_EQ(Post(**sampler, "/pull_weights", R"({"target_version":1})").status, 200);  // a stream leads back too
  ASSERT_EQ(Post(**sampler, "/update_weights_from_disk", "").status, 200);
  EXPECT_EQ(engine_.loaded(), DigestOf(1));
}

TEST_F(DiskSamplerTest, AStreamThatWasRewrittenIsNoticedByAPull) {
  model_.live().PublishAll();
  const auto sampler = Open();
  ASSERT_TRUE(sampler.ok()) << sampler.status().message();
  ASSERT_EQ(Post(**sampler, "/pull_weights", R"({"target_version":4})").status, 200);
  ASSERT_EQ(Post(**sampler, "/update_weights_from_disk", "").status, 200);
  model_.live().PutBackTo(2);
  model_.live().PublishAll();
  EXPECT_EQ(Health(**sampler), 200);
  const HttpReply pulled = Post(**sampler, "/pull_weights", R"({"target_version":"latest"})");
  EXPECT_EQ(pulled.status, 409);
  EXPECT_THAT(pulled.body, HasSubstr("was rewritten: its version 4 is another state"));
  EXPECT_EQ(Health(**sampler), 503);
  EXPECT_EQ(Post(**sampler, "/update_weights_from_disk", "").status, 409);
}

TEST_F(DiskSamplerTest, AStreamThatWasRewrittenIsNoticedByWhoFollowsIt) {
  model_.live().PublishAll();
  const auto sampler = Open();
  ASSERT_TRUE(sampler.ok()) << sampler.status().message();
  const std::jthread following([&](const std::stop_token& stop) { (*sampler)->Follow(stop); });
  while ((*sampler)->version() != 4) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  model_.live().PutBackTo(2);
  while (Health(**sampler) != 503) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  EXPECT_EQ((*sampler)->disk_version(), 4);
  model_.live().PublishAll();
  while ((*sampler)->counts().last_error.find("was rewritten") == std::string::npos) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  EXPECT_EQ((*sampler)->version(), 4);
}

TEST_F(DiskSamplerTest, FoldersOfMilesAndSlimeArePulledAsTheirTrainersAsk) {
  PublishFolders(4);
  auto sampler = Open();
  ASSERT_TRUE(sampler.ok()) << sampler.status().message();
  const std::string dir =
      R"("local_checkpoint_dir":")" + (model_.folder() / "base").string() + R"(","source_dir":")" + root_.string() + R"(")";
  const auto pull = [&](int version) {
    return Post(**sampler, "/pull_weights", "{" + dir + ",\"target_version\":" + std::to_string(version) + "}");
  };
  EXPECT_EQ(pull(0).status, 200);
  ASSERT_EQ(pull(2).status, 200) << pull(2).body;
  engine_.Take();
  EXPECT_EQ(Post(**sampler, "/pause_generation", R"({"mode":"retract"})").status, 200);
  EXPECT_EQ(Post(**sampler, "/flush_cache", "").status, 200);
  EXPECT_EQ(Post(**sampler, "/update_weights_from_disk",
                 R"({"model_path":")" + (model_.folder() / "base").string() + R"(","weight_version":"2"})")
                .status,
            200);
  EXPECT_EQ(Post(**sampler, "/continue_generation", "").status, 200);
  EXPECT_THAT(engine_.Take(),
              ElementsAre("/pause_generation", "/flush_cache", "/update_weights_from_disk", "/continue_generation"));
  EXPECT_EQ(engine_.loaded(), DigestOf(2));
  EXPECT_EQ((*sampler)->version(), 2);
  EXPECT_THAT(pull(1).body, HasSubstr("do not lead back"));
  EXPECT_EQ(pull(5).status, 404) << pull(5).body;
  EXPECT_EQ((*sampler)->disk_version(), 2);  // the way is known before the first step
  EXPECT_EQ(Post(**sampler, "/pull_weights", "{" + dir + R"(,"target_version":"latest"})").status, 200);
  EXPECT_EQ((*sampler)->disk_version(), 4);
  // Another life finds out by itself where the checkpoint stands.
  sampler->reset();
  sampler = Open();
  ASSERT_TRUE(sampler.ok()) << sampler.status().message();
  EXPECT_EQ((*sampler)->version(), 4);
  EXPECT_EQ(engine_.loaded(), DigestOf(4));
}

TEST_F(DiskSamplerTest, AServerHasItsCheckpointForItself) {
  model_.live().PublishAll();
  auto sampler = Open();
  ASSERT_TRUE(sampler.ok()) << sampler.status().message();
  fs::create_symlink(checkpoint_, model_.folder() / "link");
  DiskSamplerOptions other = Options();
  other.source.checkpoint = model_.folder() / "link";
  EXPECT_EQ(DiskSampler::Open(runtime(), *store_, other).status().code(), Code::kRefused);
  const auto pull_by_hand = [&] { return PullCheckpoint(runtime(), *store_, "", checkpoint_, 1).status(); };
  EXPECT_THAT(pull_by_hand().message(), HasSubstr("another xorbit process has this checkpoint"));
  EXPECT_EQ(Post(**sampler, "/pull_weights", R"({"target_version":2})").status, 200);
  sampler->reset();
  EXPECT_TRUE(pull_by_hand().ok());
  sampler = Open();
  ASSERT_TRUE(sampler.ok()) << sampler.status().message();
  EXPECT_EQ(engine_.loaded(), DigestOf(1));
  EXPECT_THAT(engine_.last_load(), HasSubstr(R"("weight_version":"1")"));
}

// Somebody who does not know the lock.
class OtherTool {
 public:
  explicit OtherTool(fs::path file) : file_(std::move(file)) {}
  void Flip() {
    std::fstream file(file_, std::ios::in | std::ios::out | std::ios::binary);
    file.seekg(-1, std::ios::end);
    const int byte = file.get();
    file.seekp(-1, std::ios::end);
    file.put(static_cast<char>(byte ^ 0x40));
  }

 private:
  fs::path file_;
};

TEST_F(DiskSamplerTest, BytesThatSomebodyElseHasChangedAreReadAgain) {
  for (const bool by_folders : {false, true}) {
    if (by_folders) PublishFolders(4);
    if (!by_folders) model_.live().PublishAll();
    const auto sampler = Open();
    ASSERT_TRUE(sampler.ok()) << sampler.status().message();
    OtherTool tool(Checkpoint::Open(checkpoint_).value().files().front().path);
    tool.Flip();
    engine_.Take();
    EXPECT_THAT(Post(**sampler, "/update_weights_from_disk", "").body, HasSubstr("is no version of"));
    EXPECT_THAT(engine_.Take(), ElementsAre());
    EXPECT_EQ((*sampler)->disk_version(), std::nullopt);
    EXPECT_EQ((*sampler)->version(), 0);  // the engine holds what it has loaded
    EXPECT_EQ(Post(**sampler, "/pull_weights", R"({"target_version":2})").status, 409);
    tool.Flip();
    EXPECT_EQ(Post(**sampler, "/update_weights_from_disk", "").status, 200);
    // While the engine loads: what it has read is no version, or is one without anybody knowing which.
    engine_.AfterLoad([&] { tool.Flip(); });
    EXPECT_THAT(Post(**sampler, "/update_weights_from_disk", "").body, HasSubstr("were changed meanwhile"));
    EXPECT_EQ((*sampler)->version(), std::nullopt);
    EXPECT_EQ(Health(**sampler), 503);
    engine_.AfterLoad({});
    tool.Flip();
    EXPECT_EQ(Post(**sampler, "/update_weights_from_disk", "").status, 200);
    EXPECT_EQ(Health(**sampler), 200);
  }
}

TEST_F(DiskSamplerTest, ACheckpointThatWasMovedIsNotTheOneThatIsLocked) {
  model_.live().PublishAll();
  const auto sampler = Open();
  ASSERT_TRUE(sampler.ok()) << sampler.status().message();
  fs::rename(checkpoint_, model_.folder() / "moved");
  for (const char* path : {"/pull_weights", "/update_weights_from_disk"}) {
    EXPECT_THAT(Post(**sampler, path, R"({"target_version":2})").body, HasSubstr("was moved or replaced")) << path;
  }
  EXPECT_FALSE(fs::exists(checkpoint_));
  fs::copy(model_.folder() / "moved", checkpoint_, fs::copy_options::recursive);  // with a lock file of its own
  EXPECT_THAT(Post(**sampler, "/update_weights_from_disk", "").body, HasSubstr("was moved or replaced"));
}

TEST_F(DiskSamplerTest, ACheckpointOfLinksIsNotItsOwn) {
  model_.live().PublishAll();
  const fs::path file = Checkpoint::Open(checkpoint_).value().files().front().path;
  fs::create_hard_link(file, model_.folder() / "other-name");
  EXPECT_THAT(Open().status().message(), HasSubstr("is a link"));
}

TEST_F(DiskSamplerTest, FoldersOfAnotherRunSayNothingOfThisCheckpoint) {
  PublishFolders(1);
  fs::create_directory(root_ / "run");
  fs::rename(root_ / MilesFolderName(1), root_ / "run" / MilesFolderName(1));
  const auto sampler = Open();
  ASSERT_TRUE(sampler.ok()) << sampler.status().message();
  const HttpReply reply = Post(**sampler, "/pull_weights", R"({"target_version":1,"source_dir":"run"})");
  EXPECT_EQ(reply.status, 409);
  EXPECT_THAT(reply.body, HasSubstr("is not the folder whose versions"));
}

TEST_F(DiskSamplerTest, WhatCannotBeServedIsFoundBeforeTheEngineIsAsked) {
  model_.live().PublishAll();
  const fs::path odd = model_.folder() / "base\xff";
  fs::copy(checkpoint_, odd, fs::copy_options::recursive);
  DiskSamplerOptions options = Options();
  options.source.checkpoint = odd;
  EXPECT_EQ(DiskSampler::Open(runtime(), model_.store(), options).status().code(), Code::kUsage);
  ServeRequest request;
  request.port = engine_.port();
  EXPECT_FALSE(ServedDisk::Start(runtime(), model_.store(), request, Options()).ok());
  EXPECT_THAT(engine_.Take(), ElementsAre());
}

TEST_F(DiskSamplerTest, RequestsThatLeadElsewhereAreRefused) {
  PublishFolders(1);
  const auto sampler = Open();
  ASSERT_TRUE(sampler.ok()) << sampler.status().message();
  for (const char* source : {"/", "/etc", "..", "nowhere"}) {
    const HttpReply reply =
        Post(**sampler, "/pull_weights", R"({"target_version":1,"source_dir":")" + std::string(source) + "\"}");
    EXPECT_EQ(reply.status, 409) << source;
    EXPECT_THAT(reply.body, HasSubstr("names nothing in this sampler's store")) << source;
  }
  EXPECT_EQ(Post(**sampler, "/pull_weights", R"({"target_version":1,"local_checkpoint_dir":"/tmp"})").status, 409);
  EXPECT_EQ(Post(**sampler, "/update_weights_from_disk", R"({"model_path":"/tmp"})").status, 409);
  EXPECT_EQ(Post(**sampler, "/pull_weights", "{}").status, 400);
  EXPECT_EQ(Post(**sampler, "/pause_generation", R"({"mode":"x\r\ny"})").status, 400);
  EXPECT_EQ(Post(**sampler, "/prepare_gpu_delta", "{}").status, 501);
  EXPECT_EQ((*sampler)->disk_version(), 0);
}

}  // namespace
}  // namespace xorbit
