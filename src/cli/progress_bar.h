// A progress bar on standard error for work over a second, only where that is a terminal.
#pragma once

#include <thread>

#include "base/progress.h"

namespace xorbit {

// Watches `progress` from a thread of its own until destroyed, then clears its line. Draws nothing if standard error is no
// terminal.
class ProgressBar {
 public:
  explicit ProgressBar(const Progress& progress);
  ~ProgressBar() = default;
  ProgressBar(const ProgressBar&) = delete;
  ProgressBar& operator=(const ProgressBar&) = delete;

 private:
  std::jthread watcher_;
};

}  // namespace xorbit
