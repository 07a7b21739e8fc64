#include "server/engine_memory.h"

#include <algorithm>
#include <thread>

#include "base/stopwatch.h"
#include "server/engine_call.h"

namespace xorbit {
namespace {

using Clock = std::chrono::steady_clock;
// How long an engine is left alone between tries to flush: all of it stands still meanwhile.
constexpr std::chrono::milliseconds kFirstFlushRest{1};
constexpr std::chrono::milliseconds kLongestFlushRest{20};

}  // namespace

Status EngineMemory::Call(const EngineCall& call, Deadline deadline) const {
  EngineAddress engine{options_.endpoint, options_.token, {}};
  {
    const std::lock_guard lock(mutex_);
    engine.sync_id = sync_id_;
  }
  return AskEngine(engine, call, deadline);
}

Status EngineMemory::Timed(const std::string& phase, const std::function<Status()>& work) {
  const Stopwatch watch;
  Status status = work();
  const std::lock_guard lock(mutex_);
  phase_seconds_[phase] += watch.seconds();
  return status;
}

// Whether this is the first pause, and the engine has gone on as a former server has left it: then nothing has to be done to
// its requests.
bool EngineMemory::FindsAllCurrent() const {
  return !opened_ && found_ && (found_->has_clean_caches || !MustFlush(options_.policy));
}

Status EngineMemory::Close(Deadline deadline) {
  XORBIT_RETURN_IF_ERROR(memory_->Readiness());
  const KvPolicy policy = FindsAllCurrent() ? KvPolicy::kKeep : options_.policy;
  Status closed = Timed("gate", [&] { return Call(PauseCall(options_.kind, policy), deadline); });
  if (closed.ok()) closed = Timed("fence", [&] { return memory_->Close(deadline); });
  if (closed.ok()) return {};
  // A pause without a reply may have paused all the same.
  const Status resumed = Call(ContinueCall(options_.kind), Clock::now() + options_.call_limit);
  if (resumed.ok() || !opened_) return closed;
  const std::lock_guard lock(mutex_);
  stuck_ = closed.message() + "; and then " + resumed.message();
  return closed;
}

// Up to 0.5.20 SGLang refuses to flush while retracted requests wait; an engine also refuses while something of its own is
// under way. What it waits for then is aborted.
Status EngineMemory::Flush(EnginePause* pause) const {
  const Deadline end = Clock::now() + options_.flush_limit;
  const EngineCall call = FlushCall(options_.kind);
  Status flushed = Call(call, Clock::now() + options_.call_limit);
  if (!flushed.ok() && flushed.code() == Code::kRefused) {
    XORBIT_RETURN_IF_ERROR(Call(AbortAllCall(options_.kind), Clock::now() + options_.call_limit));
    pause->has_aborted_all = true;
    std::chrono::milliseconds rest = kFirstFlushRest;
    do {
      std::this_thread::sleep_for(rest);
      rest = std::min(2 * rest, kLongestFlushRest);
      flushed = Call(call, Clock::now() + options_.call_limit);
    } while (!flushed.ok() && Clock::now() < end);
  }
  pause->has_flushed = flushed.ok();
  return flushed;
}

Status EngineMemory::GoOn(uint64_t version, EnginePause* pause) {
  if (opened_ != version) {
    const bool is_clean = FindsAllCurrent() && found_->version == version;
    if (MustFlush(options_.policy) && !is_clean) XORBIT_RETURN_IF_ERROR(Timed("flush", [&] { return Flush(pause); }));
    const Status labelled = Call(LabelCall(options_.kind, version), Clock::now() + options_.call_limit);
    pause->label_error = labelled.message();
  }
  memory_->Open(version);
  if (pause->has_flushed) memory_->NoteCleanCaches(version);
  opened_ = version;
  return Timed("resume", [&] { return Call(ContinueCall(options_.kind), Clock::now() + options_.call_limit); });
}

void EngineMemory::Open(uint64_t version) {
  EnginePause pause;
  pause.start_version = opened_;
  pause.end_version = version;
  pause.cache_namespace = CacheNamespace(options_.policy, version);
  const Status status = GoOn(version, &pause);
  const std::lock_guard lock(mutex_);
  last_pause_ = pause;
  stuck_ = status.message();
}

Status EngineMemory::Readiness() const {
  XORBIT_RETURN_IF_ERROR(memory_->Readiness());
  return Standstill();
}

Status EngineMemory::Standstill() const {
  const std::lock_guard lock(mutex_);
  if (stuck_.empty()) return {};
  return RefusedError("the engine stands still: " + stuck_ + "; POST /continue_generation to try again");
}

void EngineMemory::NameSync(const std::string& sync_id) {
  const std::lock_guard lock(mutex_);
  sync_id_ = sync_id;
}

EnginePause EngineMemory::last_pause() const {
  const std::lock_guard lock(mutex_);
  return last_pause_;
}

std::map<std::string, double> EngineMemory::phase_seconds() const {
  const std::lock_guard lock(mutex_);
  return phase_seconds_;
}

}  // namespace xorbit
