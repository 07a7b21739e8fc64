#include "cli/progress_bar.h"

#include <fmt/core.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <mutex>
#include <string>

namespace xorbit {
namespace {

constexpr int kBarWidth = 32;

void Draw(const Progress& progress) {
  const uint64_t total = progress.total;
  const double share = total == 0 ? 0 : std::min(1.0, static_cast<double>(progress.done) / static_cast<double>(total));
  const auto filled = static_cast<size_t>(share * kBarWidth);
  const std::string bar = std::string(filled, '#') + std::string(kBarWidth - filled, '.');
  fmt::print(stderr, "\r{:<10.10} [{}] {:3.0f} %", progress.stage.load(), bar, share * 100);
  std::fflush(stderr);
}

void Watch(const std::stop_token& stop, const Progress& progress) {
  std::mutex mutex;
  std::condition_variable_any wake;
  std::unique_lock lock(mutex);
  bool drawn = false;
  auto pause = std::chrono::milliseconds(1000);
  while (!wake.wait_for(lock, stop, pause, [&] { return stop.stop_requested(); })) {
    pause = std::chrono::milliseconds(100);
    if (progress.total == 0) continue;
    Draw(progress);
    drawn = true;
  }
  if (drawn) fmt::print(stderr, "\r{:<60}\r", "");
}

}  // namespace

ProgressBar::ProgressBar(const Progress& progress) {
  if (::isatty(STDERR_FILENO) == 0) return;
  watcher_ = std::jthread([&progress](const std::stop_token& stop) { Watch(stop, progress); });
}

}  // namespace xorbit
