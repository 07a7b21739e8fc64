// Requests, cache and pauses of the imitation engine: scheduler.h.
#include "engine/scheduler.h"

#include <chrono>
#include <thread>

namespace xorbit::imitation {
namespace {

constexpr uint64_t kPromptCount = 16;
constexpr uint64_t kMostTokens = 12;
constexpr std::chrono::microseconds kPoll{50};

}  // namespace

bool Scheduler::Begin() {
  const std::lock_guard lock(mutex_);
  if (is_paused_) return false;
  is_inside_ = true;
  return true;
}

void Scheduler::Admit(uint64_t version) {
  if (drains_) return;
  while (running_.size() < load_) {
    Request request;
    if (queued_.empty()) {
      request.prompt = random_() % kPromptCount;
      request.left = 1 + random_() % kMostTokens;
    } else {
      request = queued_.front();
      queued_.pop_front();
    }
    const auto cached = cache_.find(request.prompt);
    if (cached != cache_.end() && cached->second != version) ++counts_.stale_prefixes;
    cache_.emplace(request.prompt, version);
    request.first_version = request.last_version = version;
    running_.push_back(request);
  }
}

void Scheduler::End(uint64_t version, bool has_computed) {
  const std::lock_guard lock(mutex_);
  is_inside_ = false;
  if (!has_computed) return;
  Admit(version);
  for (size_t i = running_.size(); i-- > 0;) {
    Request& request = running_[i];
    request.last_version = version;
    if (--request.left > 0) continue;
    ++counts_.finished;
    counts_.mixed_requests += request.first_version != request.last_version ? 1 : 0;
    running_.erase(running_.begin() + static_cast<std::ptrdiff_t>(i));
  }
}

uint64_t Scheduler::Pause(const std::string& mode) {
  std::unique_lock lock(mutex_);
  const uint64_t running_count = running_.size();
  if (mode == "wait") {
    drains_ = true;
  } else {
    is_paused_ = true;
  }
  while (is_inside_ || (mode == "wait" && !is_paused_ && !running_.empty())) {
    lock.unlock();
    std::this_thread::sleep_for(kPoll);
    lock.lock();
  }
  is_paused_ = true;
  if (mode == "abort") counts_.aborted += running_.size();
  if (mode == "retract") Retract();
  if (mode == "abort") running_.clear();
  return running_count;
}

void Scheduler::Retract() {
  counts_.retracted += running_.size();
  queued_.insert(queued_.begin(), running_.begin(), running_.end());
  running_.clear();
}

void Scheduler::Continue() {
  const std::lock_guard lock(mutex_);
  is_paused_ = drains_ = false;
}

bool Scheduler::is_paused() const {
  const std::lock_guard lock(mutex_);
  return is_paused_;
}

bool Scheduler::Flush() {
  const std::lock_guard lock(mutex_);
  if (!running_.empty() || (!is_paused_ && !queued_.empty())) return false;
  cache_.clear();
  ++counts_.flushes;
  return true;
}

void Scheduler::RetractAndFlush() {
  const std::lock_guard lock(mutex_);
  Retract();
  cache_.clear();
  ++counts_.flushes;
}

void Scheduler::AbortAll() {
  const std::lock_guard lock(mutex_);
  counts_.aborted += running_.size() + queued_.size();
  running_.clear();
  queued_.clear();
}

void Scheduler::Label(const std::string& label) {
  const std::lock_guard lock(mutex_);
  label_ = label;
}

std::string Scheduler::label() const {
  const std::lock_guard lock(mutex_);
  return label_;
}

SchedulerCounts Scheduler::counts() const {
  const std::lock_guard lock(mutex_);
  return counts_;
}

}  // namespace xorbit::imitation
