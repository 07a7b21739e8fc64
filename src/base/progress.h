// How far a long stage has come: written by workers, read by whoever shows it.
#pragma once

#include <atomic>
#include <cstdint>

namespace xorbit {

// Counters only; showing them is the command line's business. Thread-safe.
struct Progress {
  std::atomic<const char*> stage{""};  // a string literal
  std::atomic<uint64_t> done{0};
  std::atomic<uint64_t> total{0};  // 0: unknown

  void Begin(const char* name, uint64_t work) {
    done = 0;
    total = work;
    stage = name;
  }
};

}  // namespace xorbit
