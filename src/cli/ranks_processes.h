// The processes of `xorbit bench --ranks`: forked, watched, and started again if they have killed themselves.
#pragma once

#include <functional>
#include <memory>

#include "cli/ranks_board.h"

namespace xorbit {

// Memory that forked processes share, all zero at first.
class SharedBoard {
 public:
  static Result<std::unique_ptr<SharedBoard>> Make();
  SharedBoard(const SharedBoard&) = delete;
  SharedBoard& operator=(const SharedBoard&) = delete;
  ~SharedBoard();
  Board* get() const { return board_; }

 private:
  explicit SharedBoard(Board* board) : board_(board) {}
  Board* board_;
};

// Runs body(index, life) in `count` processes at once and waits for all of them. One that dies by kill -9 is started again,
// with the next life, `most_deaths` times in all; any other death, or an error of a body, stops the others, and its message
// comes back. The caller must not have called CUDA. Nothing is left running when it returns.
Status RunProcesses(Board* board, uint32_t count, uint32_t most_deaths,
                    const std::function<Status(uint32_t index, uint32_t life)>& body);

}  // namespace xorbit
