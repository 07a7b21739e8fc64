// Lines for a reader who may be slow or gone, from threads that must not wait for it.
#pragma once

#include <memory>
#include <string>

namespace xorbit {

// Thread-safe. Lines are written in order, each whole; those that do not fit, because the reader has fallen behind by more than
// a megabyte, are left out, and their number stands in a line of its own.
class LineLog {
 public:
  // Writes to `fd`, which must stay open until the process ends.
  explicit LineLog(int fd);
  // Waits for what was added to be written, but not for long.
  ~LineLog();
  LineLog(const LineLog&) = delete;
  LineLog& operator=(const LineLog&) = delete;

  // Never waits for the reader.
  void Add(const std::string& line);

 private:
  struct State;
  std::shared_ptr<State> state_;  // the writer's too: a reader that stalls for ever keeps it beyond this object
};

}  // namespace xorbit
