// A sampler whose weights are a checkpoint on this host's disk, and an engine beside it, unmodified, that loads it: patched
// crash-safely while the engine serves, then reloaded by the engine's own endpoint. Updates come from a stream of a store, or
// from the weight_vNNNNNN folders in which Miles and slime publish. docs/design/serving.md.
//
// Two things are kept true apart from one another: what the checkpoint is (disk_checkpoint.h), and what the engine holds
// (disk_engine.h). Here the one is told to the other.
#pragma once

#include <chrono>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <optional>
#include <stop_token>
#include <string>

#include "server/disk_checkpoint.h"
#include "server/disk_engine.h"
#include "server/serving_counters.h"

namespace xorbit {

struct DiskSamplerOptions {
  std::string engine_id;  // empty: host name and process
  DiskSource source;
  DiskEngineOptions engine;
  bool follows = false;                             // Follow is called, and nobody else may change anything
  std::chrono::milliseconds follow_interval{100};   // how often the store is asked for a newer version
  std::chrono::milliseconds probe_interval{1'000};  // how often the engine is asked whether it is still the same
  std::chrono::milliseconds last_back_off{30'000};  // after failures the interval doubles up to this
};

// What has come of pulls and loads since the server started, for /metrics.
struct DiskCounts {
  uint64_t pulled_count = 0;  // that have changed the checkpoint
  uint64_t pull_failed_count = 0;
  uint64_t loaded_count = 0;
  uint64_t load_failed_count = 0;
  uint64_t fetched_bytes = 0;
  uint64_t change_count = 0;
  double pull_seconds = 0;  // of all tries
  double load_seconds = 0;
  std::string last_error;  // of the last try to follow; empty after a success
};

// Thread-safe. One pull or reload at a time: kRefused meanwhile.
class DiskSampler {
 public:
  // Locks the checkpoint, takes back what a killed process has left half done, proves which version it is, and has the engine
  // load it: nothing else says what the engine serves. The store and what `runtime` points to outlive it. kRefused if another
  // server has the checkpoint or it is no version, kUsage if its path is not UTF-8, kIo if the engine does not answer.
  static Result<std::unique_ptr<DiskSampler>> Open(const Runtime& runtime, ObjectStore& store,
                                                   const DiskSamplerOptions& options);

  // DiskCheckpoint::Pull; the engine goes on with what it has loaded.
  Result<PulledDisk> Pull(std::optional<uint64_t> target, const std::optional<std::string>& source_dir);
  // Has the engine load the checkpoint, and returns the version that it has loaded. kRefused, with nothing done, if `label` is
  // named and is not the version on the disk. Otherwise as DiskEngine::Load.
  Result<uint64_t> Reload(const ReloadOrder& order, const std::optional<std::string>& label);

  // Keeps the engine at the newest version until a stop is requested, on one thread; a load under way is waited for. Whatever
  // fails is tried again. Versions that come while the engine loads are skipped: each pull goes to the newest there is. An
  // engine that was restarted is had to load again.
  void Follow(const std::stop_token& stop);

  // DiskCheckpoint::Newest, which has the stream read anew: a good time for CheckHeld.
  Result<uint64_t> Newest();
  // Of the engine; and not while the stream says otherwise of the version on the disk.
  Status Readiness();
  DiskCounts counts() const;
  ServingCounters& counters() { return counters_; }  // of updates nothing is counted there

  DiskEngine& engine() { return engine_; }
  const DiskEngine& engine() const { return engine_; }
  std::optional<uint64_t> version() const { return engine_.version(); }
  std::optional<uint64_t> disk_version() const { return checkpoint_->version(); }
  // Of whom these are versions: a stream's id, or the folder of weight_v folders.
  std::string source_name() const { return checkpoint_->source_name(); }
  bool follows_stream() const { return checkpoint_->follows_stream(); }
  const std::string& engine_id() const { return options_.engine_id; }
  const DiskSamplerOptions& options() const { return options_; }

 private:
  explicit DiskSampler(DiskSamplerOptions options) : options_(std::move(options)), engine_(options_.engine) {}
  Status CatchUp();
  Result<uint64_t> LoadProven(const ReloadOrder& order, const std::optional<std::string>& label);

  const DiskSamplerOptions options_;
  std::mutex work_mutex_;  // held by a pull or a reload
  std::unique_ptr<DiskCheckpoint> checkpoint_;
  DiskEngine engine_;
  mutable std::mutex counts_mutex_;
  DiskCounts counts_;  // guarded by counts_mutex_
  ServingCounters counters_;
  std::condition_variable_any never_;
};

}  // namespace xorbit
