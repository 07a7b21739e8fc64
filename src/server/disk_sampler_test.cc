// A checkpoint on the disk and an engine over loopback that loads it when it is asked, as SGLang's or vLLM's would, and tells
// by digest what it has loaded: updates from a stream and from weight_v folders, engines that fail, and requests that ask for
// more than there is.
#include "server/disk_sampler.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <deque>
#include <thread>

#include "interchange/miles_writer.h"
#include "server/disk_routes.h"
#include "server/testing/served_model.h"
#include "transport/http_server.h"

namespace xorbit {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

// Loads the checkpoint at every reload. Notes what it was asked.
class LoadingEngine {
 public:
  LoadingEngine(const Backend& backend, fs::path checkpoint)
      : backend_(backend),
        checkpoint_(std::move(checkpoint)),
        server_(HttpServer::Listen("127.0.0.1", 0, {.threads = 1}).value()) {
    thread_ = std::jthread([this] {
      const auto answer = [this](const HttpRequest& request) { return Answer(request); };
      EXPECT_TRUE(server_->Run(answer, [](int, const std::string&) { return HttpReply(); }).ok());
    });
  }
  ~LoadingEngine() { server_->Stop(); }

  uint16_t port() const { return server_->port(); }
  void FailNext() { fails_next_ = true; }
  StateDigest loaded() {
    const std::lock_guard lock(mutex_);
    return loaded_;
  }
  std::vector<std::string> Take() {
    const std::lock_guard lock(mutex_);
    return std::exchange(seen_, {});
  }

 private:
  HttpReply Answer(const HttpRequest& request) {
    const std::lock_guard lock(mutex_);
    seen_.push_back(request.path);
    HttpReply reply;
    reply.body = R"({"success": true, "message": ""})";
    if (request.path != "/update_weights_from_disk" && request.path != "/collective_rpc") return reply;
    if (fails_next_.exchange(false)) {
      reply.body = R"({"success": false, "message": "out of memory"})";
      return reply;
    }
    const Checkpoint checkpoint = OpenSettled(checkpoint_).value();
    loaded_ = backend_.Scan(checkpoint.layout(), checkpoint.all_tensor_bytes(), ScanScope::kAll, 1);
    last_body_ = request.body;
    return reply;
  }

 public:
  std::string last_body_;

 private:
  const Backend& backend_;
  fs::path checkpoint_;
  std::unique_ptr<HttpServer> server_;
  std::atomic<bool> fails_next_{false};
  std::mutex mutex_;
  StateDigest loaded_;
  std::vector<std::string> seen_;
  std::jthread thread_;
};

class DiskSamplerTest : public testing::Test {
 protected:
  DiskSamplerOptions Options(EngineKind kind = EngineKind::kSglang) {
    DiskSamplerOptions options;
    options.engine_id = "engine-a";
    options.checkpoint = model_.folder() / "base";
    options.store_root = root_;
    options.kind = kind;
    options.endpoint = {"127.0.0.1", engine_.port()};
    return options;
  }
  Result<std::unique_ptr<DiskSampler>> Open(EngineKind kind = EngineKind::kSglang) {
    store_ = OpenFolderStore(PosixFileOps(), root_).value();
    return DiskSampler::Open({&model_.backend(), &PosixFileOps(), 2}, *store_, Options(kind));
  }
  // As Miles and slime publish: a folder a version, each from the one before.
  void PublishFolders(uint64_t count) {
    root_ = model_.folder() / "published";
    fs::create_directory(root_);
    for (uint64_t version = 1; version <= count; ++version) {
      MilesWriteOptions options;
      options.base_version = version - 1;
      options.version = version;
      const auto written =
          WriteMilesFolder(PosixFileOps(), root_ / MilesFolderName(version), model_.live().layout(),
                           model_.live().state(version - 1).bytes(), model_.live().state(version).bytes(), options);
      ASSERT_TRUE(written.ok()) << written.status().message();
    }
  }
  HttpReply Post(DiskSampler& sampler, std::string path, std::string body) {
    HttpRequest request;
    request.method = "POST";
    request.path = std::move(path);
    request.body = std::move(body);
    RateLimit limit(0, std::chrono::steady_clock::now());
    return Dispatch(sampler, {}, limit, request);
  }
  StateDigest DigestOf(uint64_t version) { return model_.live().DigestOf(version); }

  ServedModel model_;
  fs::path root_ = model_.folder() / "store";
  std::unique_ptr<ObjectStore> store_;
  LoadingEngine engine_{model_.backend(), model_.folder() / "base"};
};

TEST_F(DiskSamplerTest, AStreamIsPulledAndTheEngineLoadsIt) {
  model_.live().PublishAll();
  const auto sampler = Open();
  ASSERT_TRUE(sampler.ok()) << sampler.status().message();
  EXPECT_EQ(engine_.loaded(), DigestOf(0));
  HttpReply reply = Post(**sampler, "/pull_weights", R"({"target_version":3})");
  ASSERT_EQ(reply.status, 200) << reply.body;
  EXPECT_EQ(engine_.loaded(), DigestOf(0));  // it goes on with what it has
  EXPECT_THAT(reply.body, HasSubstr(R"("weight_version":"0","disk_version":"3")"));
  EXPECT_EQ(Post(**sampler, "/update_weights_from_disk", R"({"weight_version":"2"})").status, 409);
  reply = Post(**sampler, "/update_weights_from_disk", R"({"weight_version":"3","flush_cache":false})");
  ASSERT_EQ(reply.status, 200) << reply.body;
  EXPECT_EQ(engine_.loaded(), DigestOf(3));
  EXPECT_THAT(engine_.last_body_, HasSubstr(R"("weight_version":"3","flush_cache":false)"));
  ASSERT_EQ(Post(**sampler, "/pull_weights", R"({"target_version":"latest"})").status, 200);
  ASSERT_EQ(Post(**sampler, "/pull_weights", R"({"target_version":1})").status, 200);  // a stream leads back too
  ASSERT_EQ(Post(**sampler, "/update_weights_from_disk", "").status, 200);
  EXPECT_EQ(engine_.loaded(), DigestOf(1));
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
  EXPECT_EQ((*sampler)->disk_version(), 4);  // as far as the folders led
  // Another life finds out by itself where the checkpoint stands.
  sampler = Open();
  ASSERT_TRUE(sampler.ok()) << sampler.status().message();
  EXPECT_EQ((*sampler)->version(), 4);
  EXPECT_EQ(engine_.loaded(), DigestOf(4));
}

TEST_F(DiskSamplerTest, AnEngineThatFailsIsNotReadyUntilItHasLoaded) {
  model_.live().PublishAll();
  const auto sampler = Open(EngineKind::kVllm);
  ASSERT_TRUE(sampler.ok()) << sampler.status().message();
  EXPECT_THAT(engine_.Take(),
              ElementsAre("/pause", "/collective_rpc", "/reset_prefix_cache", "/update_weight_version", "/resume"));
  ASSERT_EQ(Post(**sampler, "/pull_weights", R"({"target_version":2})").status, 200);
  engine_.FailNext();
  EXPECT_THAT(Post(**sampler, "/update_weights_from_disk", "").body, HasSubstr("out of memory"));
  EXPECT_THAT(engine_.Take(), ElementsAre("/pause", "/collective_rpc"));  // it stands still
  EXPECT_THAT((*sampler)->Readiness().message(), HasSubstr("nobody knows what the engine holds"));
  EXPECT_EQ(Post(**sampler, "/continue_generation", "").status, 409);
  EXPECT_EQ(Post(**sampler, "/update_weights_from_disk", "").status, 200);
  EXPECT_TRUE((*sampler)->Readiness().ok());
  EXPECT_EQ(engine_.loaded(), DigestOf(2));
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
