// The part of the imitation engine that keeps requests: some run, some wait, and what was computed for a prompt stays in a
// cache under the version it was computed by. As in SGLang and vLLM a pause aborts, retracts or keeps what runs, and a cache
// that requests still use is not flushed.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <mutex>
#include <random>
#include <string>

namespace xorbit::imitation {

struct SchedulerCounts {
  uint64_t finished = 0;
  uint64_t aborted = 0;
  uint64_t retracted = 0;
  uint64_t flushes = 0;
  uint64_t stale_prefixes = 0;  // a request began with what other weights had computed
  uint64_t mixed_requests = 0;  // a request ran under two versions
};

// Thread-safe. One thread calls Step.
class Scheduler {
 public:
  // Keeps `load` requests under way by itself.
  Scheduler(uint64_t load, uint64_t seed) : load_(load), random_(seed) {}

  // Begin of a step; false while it is paused. A step that has begun is waited for by Pause.
  bool Begin();
  // Its end: every running request gets one more token, computed by `version`.
  void End(uint64_t version, bool has_computed);

  // Returns how many requests were running. `mode` is abort, retract, keep, or wait (until none runs).
  uint64_t Pause(const std::string& mode);
  void Continue();
  bool is_paused() const;
  bool Flush();            // false while requests run, or while it goes on and some wait to run
  void RetractAndFlush();  // vLLM's: what runs begins again, and does not hold the cache
  void AbortAll();
  // What replies name as their weights' version.
  void Label(const std::string& label);
  std::string label() const;
  SchedulerCounts counts() const;

 private:
  struct Request {
    uint64_t prompt = 0;
    uint64_t left = 0;  // tokens
    uint64_t first_version = 0;
    uint64_t last_version = 0;
  };
  void Admit(uint64_t version);
  void Retract();

  const uint64_t load_;
  mutable std::mutex mutex_;
  std::mt19937_64 random_;  // guarded by mutex_, as all below
  bool is_paused_ = false;
  bool drains_ = false;
  bool is_inside_ = false;  // a step is under way
  std::deque<Request> running_;
  std::deque<Request> queued_;
  std::map<uint64_t, uint64_t> cache_;  // version by prompt
  std::string label_ = "default";
  SchedulerCounts counts_;
};

}  // namespace xorbit::imitation
