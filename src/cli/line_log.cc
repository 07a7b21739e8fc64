#include "cli/line_log.h"

#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <condition_variable>
#include <mutex>
#include <string_view>
#include <thread>
#include <utility>

namespace xorbit {
namespace {

constexpr size_t kMostWaitingBytes = size_t{1} << 20;
constexpr std::chrono::seconds kPatience{1};

// False if nobody reads any more.
bool WriteAll(int fd, std::string_view text) {
  while (!text.empty()) {
    const ssize_t count = ::write(fd, text.data(), text.size());
    if (count > 0) {
      text.remove_prefix(static_cast<size_t>(count));
    } else if (errno != EINTR) {
      return false;
    }
  }
  return true;
}

}  // namespace

struct LineLog::State {
  std::mutex mutex;
  std::condition_variable changed;
  std::string waiting;       // guarded by mutex, as is what follows
  uint64_t left_out = 0;     // lines, since the last one that was taken
  bool is_writing = false;   // what was waiting
  bool is_stopping = false;  // once there is nothing left to write

  // The writer's thread.
  void Write(int fd) {
    std::unique_lock lock(mutex);
    for (;;) {
      changed.wait(lock, [&] { return !waiting.empty() || is_stopping; });
      if (waiting.empty()) return;
      const std::string text = std::exchange(waiting, {});
      is_writing = true;
      lock.unlock();
      (void)WriteAll(fd, text);  // a reader that has gone misses its lines
      lock.lock();
      is_writing = false;
      changed.notify_all();
    }
  }
};

LineLog::LineLog(int fd) : state_(std::make_shared<State>()) {
  std::thread([state = state_, fd] { state->Write(fd); }).detach();  // tidy-allow: waits for a reader, computes nothing
}

LineLog::~LineLog() {
  std::unique_lock lock(state_->mutex);
  state_->is_stopping = true;
  state_->changed.notify_all();
  (void)state_->changed.wait_for(lock, kPatience, [&] { return state_->waiting.empty() && !state_->is_writing; });
}

void LineLog::Add(const std::string& line) {
  const std::lock_guard lock(state_->mutex);
  if (state_->waiting.size() + line.size() > kMostWaitingBytes) {
    ++state_->left_out;
    return;
  }
  if (state_->left_out > 0)
    state_->waiting += "{\"lines_left_out\":" + std::to_string(std::exchange(state_->left_out, 0)) + "}\n";
  state_->waiting += line + "\n";
  state_->changed.notify_all();
}

}  // namespace xorbit
