// A checkpoint on the disk, an engine that loads it, and a stream or folders to pull from.
#pragma once

#include <memory>
#include <string>
#include <utility>

#include "interchange/miles_writer.h"
#include "server/disk_routes.h"
#include "server/testing/loading_engine.h"
#include "server/testing/served_model.h"

namespace xorbit {

class DiskFixture : public testing::Test {
 protected:
  DiskSamplerOptions Options(EngineKind kind = EngineKind::kSglang) {
    DiskSamplerOptions options;
    options.engine_id = "engine-a";
    options.source = {checkpoint_, root_, ""};
    options.engine.kind = kind;
    options.engine.answer_kept = std::chrono::milliseconds(0);  // tests ask at once after a change
    options.engine.endpoint = {"127.0.0.1", engine_.port()};
    options.engine.url = "http://127.0.0.1:" + std::to_string(engine_.port());
    return options;
  }
  Runtime runtime() { return {&model_.backend(), &PosixFileOps(), 2}; }
  Result<std::unique_ptr<DiskSampler>> Open(EngineKind kind = EngineKind::kSglang) {
    store_ = OpenFolderStore(PosixFileOps(), root_).value();
    return DiskSampler::Open(runtime(), *store_, Options(kind));
  }
  // As Miles and slime publish: a folder a version, each from the one before.
  void PublishFolders(uint64_t count, uint64_t first = 1) {
    root_ = model_.folder() / "published";
    fs::create_directory(root_);
    for (uint64_t version = first; version <= count; ++version) {
      MilesWriteOptions options;
      options.base_version = version - 1;
      options.version = version;
      const auto written =
          WriteMilesFolder(PosixFileOps(), root_ / MilesFolderName(version), model_.live().layout(),
                           model_.live().state(version - 1).bytes(), model_.live().state(version).bytes(), options);
      ASSERT_TRUE(written.ok()) << written.status().message();
    }
  }
  static HttpReply Ask(DiskSampler& sampler, std::string method, std::string path, std::string body) {
    HttpRequest request;
    request.method = std::move(method);
    request.path = std::move(path);
    request.body = std::move(body);
    RateLimit limit(0, std::chrono::steady_clock::now());
    return Dispatch(sampler, {}, limit, request);
  }
  static HttpReply Post(DiskSampler& sampler, std::string path, std::string body) {
    return Ask(sampler, "POST", std::move(path), std::move(body));
  }
  static int Health(DiskSampler& sampler) { return Ask(sampler, "GET", "/health", "").status; }
  StateDigest DigestOf(uint64_t version) { return model_.live().DigestOf(version); }

  ServedModel model_;
  const fs::path checkpoint_ = model_.folder() / "base";
  fs::path root_ = model_.folder() / "store";
  std::unique_ptr<ObjectStore> store_;
  LoadingEngine engine_{model_.backend(), checkpoint_};
};

}  // namespace xorbit
