// A stream in a folder, a checkpoint of its version 0, and a sampler that serves it.
#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <string>

#include "backend/cpu/cpu_backend.h"
#include "base/temporary_folder.h"
#include "base/testing/seed.h"
#include "receive/host_memory.h"
#include "receive/testing/live_stream.h"
#include "server/served_sampler.h"
#include "tensor/checkpoint_writer.h"
#include "transport/folder_store.h"

namespace xorbit {

class ServedModel {
 public:
  explicit ServedModel(uint64_t version_count = 4)
      : store_(OpenFolderStore(PosixFileOps(), folder_ / "store").value()), live_(random_, *backend_, *store_, version_count) {
    EXPECT_TRUE(
        WriteShardedCheckpoint(PosixFileOps(), folder_ / "base", live_.layout(), FillFrom(live_.state(0).bytes()), 40'000)
            .ok());
    request_.checkpoint = folder_ / "base";
    request_.store_root = folder_ / "store";
    request_.engine_id = "engine-a";
    request_.http.threads = 4;
  }

  // From version 0, or from what was published meanwhile if another checkpoint is named.
  std::unique_ptr<ServedSampler> Start() { return StartBy(*backend_); }
  std::unique_ptr<ServedSampler> StartBy(const Backend& backend) {
    auto served = ServedSampler::Start({&backend, &PosixFileOps(), 2}, *store_, request_);
    EXPECT_TRUE(served.ok()) << served.status().message();
    return std::move(served).value();
  }

  LiveStream& live() { return live_; }
  ServeRequest& request() { return request_; }
  const TemporaryFolder& folder() const { return folder_; }
  const Backend& backend() const { return *backend_; }
  ObjectStore& store() { return *store_; }
  bool Holds(const ServedSampler& served, uint64_t version) const {
    return HoldsTensors(served.sampler().memory().live(), live_.state(version).bytes());
  }

 private:
  Random random_{TestSeed()};
  TemporaryFolder folder_;
  std::unique_ptr<Backend> backend_ = MakeCpuBackend();
  std::unique_ptr<ObjectStore> store_;
  LiveStream live_;
  ServeRequest request_;
};

}  // namespace xorbit
