// Ctrl-C and its like: a model that was half made must not stay on the disk because the user has changed their mind.
#pragma once

#include <csignal>
#include <thread>

namespace xorbit {

// While it lives, SIGINT, SIGTERM and SIGHUP (but for those that are ignored, as by nohup) first remove what the process has
// staged, then end it as they would have. To be made before any thread.
class StopWatcher {
 public:
  StopWatcher();
  ~StopWatcher() = default;
  StopWatcher(const StopWatcher&) = delete;
  StopWatcher& operator=(const StopWatcher&) = delete;

 private:
  sigset_t signals_;
  std::jthread thread_;  // tidy-allow: waits for signals, computes nothing
};

}  // namespace xorbit
