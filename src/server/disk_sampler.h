// A sampler whose weights are a checkpoint on this host's disk, and an engine beside it, unmodified, that loads it: patched
// crash-safely while the engine serves, then reloaded by the engine's own endpoint. Updates come from a stream of a store, or
// from the weight_vNNNNNN folders in which Miles and slime publish. docs/design/serving.md.
#pragma once

#include <chrono>
#include <memory>
#include <mutex>
#include <optional>
#include <string>

#include "journey/store_journey.h"
#include "server/engine_link.h"
#include "transport/http_client.h"

namespace xorbit {

struct DiskSamplerOptions {
  std::string engine_id;  // empty: host name and process
  fs::path checkpoint;
  fs::path store_root;    // a folder store, or the folder of weight_vNNNNNN folders
  std::string stream_id;  // empty: the store's only one
  EngineKind kind = EngineKind::kSglang;
  std::string url;  // as the user named it
  HttpEndpoint endpoint;
  std::string token;
  std::chrono::milliseconds call_limit{10'000};
  std::chrono::milliseconds reload_limit{600'000};
};

struct PulledDisk {
  uint64_t from = 0;
  uint64_t version = 0;
  uint64_t change_count = 0;
  uint64_t fetched_bytes = 0;  // of a stream
};

struct ReloadOrder {
  bool flush_cache = true;
  bool abort_all_requests = false;
};

// Thread-safe. One pull or reload at a time: kRefused meanwhile.
class DiskSampler {
 public:
  // Takes back what a killed process has left half done, proves which version the checkpoint is, and has the engine load it:
  // nothing else says what the engine serves. The store and what `runtime` points to outlive it. kRefused if the checkpoint is
  // no version, kIo if the engine does not answer.
  static Result<std::unique_ptr<DiskSampler>> Open(const Runtime& runtime, ObjectStore& store,
                                                   const DiskSamplerOptions& options);

  // Brings the checkpoint to a version, or the newest; the engine goes on with what it has loaded. `source`: a folder below
  // store_root with weight_vNNNNNN folders, which lead forward alone. After an error the checkpoint is a version all the same.
  Result<PulledDisk> Pull(std::optional<uint64_t> target, const std::optional<std::string>& source);
  // Has the engine load the checkpoint. After an error nobody knows what it holds: Readiness says so until this succeeds.
  Status Reload(const ReloadOrder& order);
  // The engine's own pause, by its name for the mode; empty: the engine's default.
  Status Pause(const std::string& mode);
  Status Continue();
  Status FlushCache();

  Status Readiness() const;
  uint64_t version() const;       // that the engine has loaded
  uint64_t disk_version() const;  // of the checkpoint
  bool follows_stream() const { return has_stream_; }
  const DiskSamplerOptions& options() const { return options_; }

 private:
  DiskSampler(const Runtime& runtime, ObjectStore& store, DiskSamplerOptions options)
      : runtime_(runtime), store_(store), options_(std::move(options)) {}
  Result<uint64_t> FindVersion();
  Result<uint64_t> FindFolderVersion() const;
  Result<PulledDisk> PullFolders(std::optional<uint64_t> target, const fs::path& source);
  Status Call(const EngineCall& call, std::chrono::milliseconds limit) const;
  Status ReloadSglang(const ReloadOrder& order, uint64_t version) const;
  Status ReloadVllm(const ReloadOrder& order, uint64_t version) const;

  const Runtime runtime_;
  ObjectStore& store_;
  const DiskSamplerOptions options_;
  bool has_stream_ = false;
  std::mutex work_mutex_;  // held by a pull or a reload; locked before mutex_
  mutable std::mutex mutex_;
  uint64_t disk_version_ = 0;  // guarded by mutex_, as the next two
  uint64_t engine_version_ = 0;
  std::string unknown_;  // why nobody knows what the engine holds
};

}  // namespace xorbit
