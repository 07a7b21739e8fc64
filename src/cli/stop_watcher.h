// Ctrl-C and its like: a model that was half made must not stay on the disk because the user has changed their mind.
#pragma once

#include <csignal>
#include <functional>
#include <latch>
#include <thread>

namespace xorbit {

// While it lives, SIGINT, SIGTERM and SIGHUP (but for those that are ignored, as by nohup) first remove what the process has
// staged, then end it as they would have. To be made before any thread. Once it is made its thread allocates nothing until a
// signal comes, so the process may fork.
class StopWatcher {
 public:
  StopWatcher();
  ~StopWatcher() = default;
  StopWatcher(const StopWatcher&) = delete;
  StopWatcher& operator=(const StopWatcher&) = delete;

 private:
  sigset_t signals_;
  std::latch started_{1};
  std::jthread thread_;  // tidy-allow: waits for signals, computes nothing
};

// While it lives, the first of these signals calls `stop` (on the watcher's thread) instead of ending the process; the second
// ends it as before. One at a time.
class GracefulStop {
 public:
  explicit GracefulStop(std::function<void()> stop);
  ~GracefulStop();
  GracefulStop(const GracefulStop&) = delete;
  GracefulStop& operator=(const GracefulStop&) = delete;
};

}  // namespace xorbit
