// Memory with an engine's HTTP server in front of it: when the gate closes the engine is paused, when it opens the engine
// flushes what the policy says, hears its version and goes on. Whatever goes wrong, the engine is left running on one version,
// or Readiness says that it stands still and why.
#pragma once

#include <chrono>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>

#include "receive/served_memory.h"
#include "server/engine_link.h"
#include "transport/http_client.h"

namespace xorbit {

struct EngineLinkOptions {
  EngineKind kind = EngineKind::kSglang;
  KvPolicy policy = KvPolicy::kFlush;
  std::string url;  // as the user named it
  HttpEndpoint endpoint;
  std::string token;
  std::chrono::milliseconds call_limit{5'000};   // for any call but the pause, which has its caller's deadline
  std::chrono::milliseconds flush_limit{2'000};  // how long a flush is tried before requests are aborted for it
};

// The last pause.
struct EnginePause {
  std::optional<uint64_t> start_version;  // none: the first
  uint64_t end_version = 0;
  std::string cache_namespace;  // CacheNamespace
  bool has_flushed = false;
  bool has_aborted_all = false;  // because the flush needed it
  std::string label_error;       // the engine does not know its version
};

class EngineMemory final : public ServedMemory {
 public:
  EngineMemory(std::unique_ptr<ServedMemory> memory, EngineLinkOptions options)
      : memory_(std::move(memory)), options_(std::move(options)), found_(memory_->found()) {}

  const LiveMemory& live() const override { return memory_->live(); }
  MutableBytes undo_memory() const override { return memory_->undo_memory(); }
  Status Close(Deadline deadline) override;
  void Open(uint64_t version) override;
  Status Readiness() const override;
  // Why the engine stands still although it was let go; success if it does not.
  Status Standstill() const;
  Status CheckReach() const override { return memory_->CheckReach(); }

  const EngineLinkOptions& options() const { return options_; }
  // One id for all calls until the next one is set.
  void NameSync(const std::string& sync_id);
  EnginePause last_pause() const;
  // Beside any pause: as the engine's own /flush_cache.
  Status FlushNow() const { return Call(FlushCall(options_.kind), std::chrono::steady_clock::now() + options_.call_limit); }
  // Seconds by phase, of all pauses: gate, fence, flush, resume.
  std::map<std::string, double> phase_seconds() const;

 private:
  Status Call(const EngineCall& call, Deadline deadline) const;
  Status Flush(EnginePause* pause) const;
  bool FindsAllCurrent() const;
  Status GoOn(uint64_t version, EnginePause* pause);
  Status Timed(const std::string& phase, const std::function<Status()>& work);

  std::unique_ptr<ServedMemory> memory_;
  const EngineLinkOptions options_;
  const std::optional<FoundReaders> found_;
  std::optional<uint64_t> opened_;  // by whoever closes and opens
  mutable std::mutex mutex_;
  std::string sync_id_;  // guarded by mutex_, as all below
  std::string stuck_;    // why the engine stands still
  EnginePause last_pause_;
  std::map<std::string, double> phase_seconds_;
};

}  // namespace xorbit
