// A sampler on the disk that follows by itself, with its server: versions that come, an engine that fails and comes back, and
// requests beside it.
#include "server/served_disk.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <future>
#include <thread>

#include "server/testing/disk_fixture.h"

namespace xorbit {
namespace {

using testing::HasSubstr;

class ServedDiskTest : public DiskFixture {
 protected:
  void Start() {
    store_ = OpenFolderStore(PosixFileOps(), root_).value();
    DiskSamplerOptions options = Options();
    options.follows = true;
    options.follow_interval = std::chrono::milliseconds(1);
    options.probe_interval = std::chrono::milliseconds(1);
    options.last_back_off = std::chrono::milliseconds(10);
    served_ = ServedDisk::Start(runtime(), *store_, model_.request(), options).value();
    running_ = std::jthread([this] { EXPECT_TRUE(served_->Run().ok()); });
  }
  void TearDown() override {
    if (served_) served_->Stop();
  }
  HttpReply Asked(const std::string& method, const std::string& path, const std::string& body = "") {
    HttpRequest request;
    request.method = method;
    request.path = path;
    request.body = body;
    return served_->Answer(request);
  }
  void AwaitLoaded(uint64_t version) {
    while (engine_.loaded() != DigestOf(version) || served_->sampler().version() != version) {
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
  }

  std::unique_ptr<ServedDisk> served_;
  std::jthread running_;
};

TEST_F(ServedDiskTest, FollowsAStreamByItself) {
  Start();
  AwaitLoaded(0);
  model_.live().PublishAll();
  AwaitLoaded(4);
  EXPECT_THAT(Asked("GET", "/server_info").body, HasSubstr(R"("follows":true,"last_error":"")"));
  const std::string refused = Asked("POST", "/pull_weights", R"({"target_version":1})").body;
  EXPECT_THAT(refused, HasSubstr("follows by itself"));
  EXPECT_EQ(Asked("POST", "/update_weights_from_disk").status, 409);
  const std::string metrics = Asked("GET", "/metrics").body;
  for (const std::string_view line :
       {"xorbit_applied_version 4", "xorbit_disk_version 4", "xorbit_version_lag 0", "xorbit_ready 1",
        "xorbit_updates_total{result=\"failed\"} 0", "xorbit_pulls_total{result=\"failed\"} 0",
        "xorbit_replies_total{status=\"409\"} 2", "xorbit_refusals_total{reason=\"state\"} 2"}) {
    EXPECT_THAT(metrics, HasSubstr("\n" + std::string(line) + "\n"));
  }
  EXPECT_EQ(served_->sampler().disk_version(), 4);
}

TEST_F(ServedDiskTest, FollowsFoldersAndAnEngineThatFailsAndComesBack) {
  PublishFolders(2);
  Start();
  AwaitLoaded(2);
  engine_.AnswerWith("/update_weights_from_disk", 500, R"({"success":false})");
  PublishFolders(3, 3);
  while (served_->sampler().counts().load_failed_count == 0) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  EXPECT_EQ(served_->sampler().disk_version(), 3);
  EXPECT_EQ(Asked("GET", "/health").status, 503);
  engine_.AnswerProperly();
  AwaitLoaded(3);
  // One that was started again holds other weights than it was told of.
  engine_.Restart();
  AwaitLoaded(3);
  EXPECT_EQ(Asked("GET", "/health").status, 200);
}

TEST_F(ServedDiskTest, WhileTheEngineLoadsAllIsAnswered) {
  Start();
  AwaitLoaded(0);
  std::promise<void> loading;
  std::promise<void> asked;
  bool was_in_time = false;
  engine_.AfterLoad([&] {
    loading.set_value();
    was_in_time = asked.get_future().wait_for(std::chrono::seconds(30)) == std::future_status::ready;
  });
  model_.live().Publish();
  loading.get_future().wait();
  const HttpReply health = Asked("GET", "/health");
  EXPECT_EQ(health.status, 503);
  EXPECT_THAT(health.body, HasSubstr("the engine is loading"));
  EXPECT_THAT(Asked("GET", "/metrics").body, HasSubstr("\nxorbit_ready 0\n"));
  EXPECT_THAT(Asked("GET", "/server_info").body, HasSubstr("\"applied\":null,\"on_disk\":1"));
  EXPECT_THAT(Asked("POST", "/continue_generation").body, HasSubstr("the engine is loading"));
  asked.set_value();
  AwaitLoaded(1);
  EXPECT_TRUE(was_in_time);
}

}  // namespace
}  // namespace xorbit
