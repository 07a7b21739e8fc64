#include "cli/stop_watcher.h"

#include <ctime>
#include <mutex>
#include <utility>

#include "base/staged_folder.h"

namespace xorbit {
namespace {

std::mutex graceful_mutex;
std::function<void()> graceful_stop;  // guarded by graceful_mutex; empty when a signal ends the process

// Whether somebody was there to stop gracefully.
bool StopGracefully() {
  const std::lock_guard lock(graceful_mutex);
  const std::function<void()> stop = std::exchange(graceful_stop, nullptr);
  if (!stop) return false;
  stop();
  return true;
}

void Watch(const std::stop_token& stop, const sigset_t& signals) {
  constexpr timespec kPatience = {.tv_sec = 0, .tv_nsec = 20'000'000};
  while (!stop.stop_requested()) {
    const int signal = ::sigtimedwait(&signals, nullptr, &kPatience);
    if (signal <= 0 || StopGracefully()) continue;
    RemoveStagedFolders();
    (void)std::signal(signal, SIG_DFL);
    (void)::pthread_sigmask(SIG_UNBLOCK, &signals, nullptr);
    (void)::raise(signal);
  }
}

}  // namespace

GracefulStop::GracefulStop(std::function<void()> stop) {
  const std::lock_guard lock(graceful_mutex);
  graceful_stop = std::move(stop);
}

GracefulStop::~GracefulStop() {
  const std::lock_guard lock(graceful_mutex);
  graceful_stop = nullptr;
}

StopWatcher::StopWatcher() {
  ::sigemptyset(&signals_);
  for (const int signal : {SIGINT, SIGTERM, SIGHUP}) {
    struct sigaction action {};
    if (::sigaction(signal, nullptr, &action) == 0 && action.sa_handler != SIG_IGN) ::sigaddset(&signals_, signal);
  }
  (void)::pthread_sigmask(SIG_BLOCK, &signals_, nullptr);  // threads that are made from here on inherit it
  const auto watch = [this](const std::stop_token& stop) {
    started_.count_down();
    Watch(stop, signals_);
  };
  thread_ = std::jthread(watch);  // tidy-allow: waits for signals, computes nothing
  // A starting thread allocates, and a process forked meanwhile could inherit a lock that nobody in it will ever open: so some
  // allocators, such as AddressSanitizer's.
  started_.wait();
}

}  // namespace xorbit
