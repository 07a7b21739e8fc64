// What holds the live memory: the inference engine, as far as a receiver has to know it.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

#include "base/status.h"

namespace xorbit {

using Deadline = std::chrono::steady_clock::time_point;

// The receiver calls from one thread, one call at a time, in the order Pause, Refresh, Resume. A call must return by its
// deadline, with an error if it could not do what it should: the receiver does not cut it short, but measures it, and takes a
// Pause or Refresh that comes too late for a failure.
class Engine {
 public:
  Engine() = default;
  Engine(const Engine&) = delete;
  Engine& operator=(const Engine&) = delete;
  virtual ~Engine() = default;

  // Why live memory must not be touched at all, even to read it. Asked before every work on it.
  virtual Status CheckReach() const { return {}; }
  // Success: no kernel, thread or graph reads the weights, and none will before Resume. After an error Resume is called too.
  virtual Status Pause(Deadline deadline) = 0;
  // Computes again what these callbacks of the live map derive from the weights. Also after the weights went back.
  virtual Status Refresh(const std::vector<std::string>& callbacks, Deadline deadline) = 0;
  // Serves again; what was cached under other weights than `version` must not be used for it. The first call of all starts an
  // engine whose receiver has just attached. If it fails, nothing more is called.
  virtual Status Resume(uint64_t version, Deadline deadline) = 0;
};

}  // namespace xorbit
