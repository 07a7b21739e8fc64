// The engine beside a checkpoint on the disk: has it load, and knows what it holds. Nothing is known but what the engine itself
// has said, and that only as long as it is the same engine: whoever asks for readiness has it asked again.
#pragma once

#include <chrono>
#include <functional>
#include <mutex>
#include <optional>
#include <string>

#include "server/engine_call.h"

namespace xorbit {

struct DiskEngineOptions {
  EngineKind kind = EngineKind::kSglang;
  std::string url;  // as the user named it
  HttpEndpoint endpoint;
  std::string token;
  std::chrono::milliseconds call_limit{10'000};
  std::chrono::milliseconds load_limit{600'000};
  std::chrono::milliseconds probe_limit{2'000};
  std::chrono::milliseconds answer_kept{200};  // a probe's: who asks for readiness meanwhile has it without another
};

// Thread-safe.
class DiskEngine {
 public:
  explicit DiskEngine(DiskEngineOptions options)
      : options_(std::move(options)), address_{options_.endpoint, options_.token, {}} {}

  // Has it load the checkpoint at `path`, which is `version`. `check` says afterwards whether it still is; it is called before
  // an engine that stands still goes on. After an error it is not ready until this succeeds, unless it was not asked to load:
  // then all is as before. Messages say what became of the engine.
  Status Load(const std::string& path, uint64_t version, const ReloadOrder& order, const std::function<Status()>& check);
  // The engine's own pause, as of PauseCallNamed. It lasts until Continue: a load does not end it.
  Status Pause(const std::string& mode);
  // kRefused while it loads, or what it has loaded is not known.
  Status Continue();
  Status FlushCache() const;

  // Success if the version is known and the engine that loaded it answers. One that names the version is known again by that
  // name, also after it was lost; of one that does not, it is only noticed that nobody answers. The engine is asked one
  // question at a time, however many ask for this: who waits has its answer, which is kept for a while unless the engine is
  // made to load.
  Status Readiness();
  std::optional<uint64_t> version() const;  // that it has loaded; nothing while nobody knows
  bool names_version() const;               // whether it says so itself when it is asked
  std::string label_error() const;          // why it could not be told, or asked, what its replies name; empty: it was
  const DiskEngineOptions& options() const { return options_; }

 private:
  struct Answer {
    std::chrono::steady_clock::time_point ended;
    uint64_t change_count = 0;  // of what is known by it
    Status status;
  };
  struct Knowledge {
    uint64_t version = 0;
    bool was_told = false;       // of the version: whatever else it names is not what it has loaded
    bool names_version = false;  // it has named one when it was asked
    bool is_lost = false;        // it has loaded `version`, but seems to be another by now: its name may show that it is not
    std::string label_error;
    std::string unknown = "it has loaded nothing yet";  // why nobody knows what it holds; empty: `version` is known
    uint64_t change_count = 0;                          // of loads begun, failed and done
  };

  Status Call(const EngineCall& call, std::chrono::milliseconds limit) const;
  Status CheckModel(const std::string& path) const;
  Status LoadVllm(const EngineCall& load, uint64_t version, const ReloadOrder& order, const std::function<Status()>& check);
  Status LoadSglang(const EngineCall& load, uint64_t version, const std::function<Status()>& check);
  Result<std::optional<std::string>> AskLabel(HttpDeadline deadline) const;
  Status Know(uint64_t version, const Status& labelled);
  void Forget(const std::string& why);
  void Hold(bool is_held);
  bool IsHeld() const;
  Status Probe(Knowledge* known) const;
  Status Learn(Knowledge* probed, const Status& answered);
  Knowledge Copy() const;

  const DiskEngineOptions options_;
  const EngineAddress address_;
  mutable std::mutex load_mutex_;  // held by Load and Continue; locked before mutex_
  std::mutex probe_mutex_;         // held by Readiness while it asks; locked before mutex_
  std::optional<Answer> answer_;   // guarded by probe_mutex_
  mutable std::mutex mutex_;
  Knowledge known_;       // guarded by mutex_
  bool is_held_ = false;  // guarded by mutex_; somebody has paused it, who will have it go on
};

}  // namespace xorbit
