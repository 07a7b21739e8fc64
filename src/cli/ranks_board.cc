#include "cli/ranks_board.h"

#include <algorithm>
#include <chrono>
#include <thread>

namespace xorbit {
namespace {

constexpr std::chrono::microseconds kPoll{100};
constexpr std::chrono::minutes kLongest{5};

}  // namespace

void PutText(std::string_view text, char* to, size_t room) {
  const size_t length = std::min(text.size(), room - 1);
  std::copy_n(text.begin(), length, to);
  to[length] = 0;
}

Status Meet(Board* board, uint32_t meeting, uint32_t count) {
  const auto deadline = std::chrono::steady_clock::now() + kLongest;
  std::atomic<uint32_t>& arrived = board->arrived[meeting];
  for (++arrived; arrived < count; std::this_thread::sleep_for(kPoll)) {
    if (board->stopped != 0) return RefusedError("another process of the benchmark has failed");
    if (std::chrono::steady_clock::now() > deadline) return RefusedError("the other processes of the benchmark did not come");
  }
  return {};
}

Turn::Turn(Board* board, uint32_t device) : is_taken_(&board->is_taken[device]) {
  for (uint32_t free = 0; board->stopped == 0 && !is_taken_->compare_exchange_weak(free, 1); free = 0) {
    std::this_thread::sleep_for(kPoll);
  }
}

Turn::~Turn() { *is_taken_ = 0; }

}  // namespace xorbit
