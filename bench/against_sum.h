// What benchmarks share that compare work bound by memory with plain reading: how much memory, and how long.
#pragma once

#include <time.h>

#include <charconv>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>

#include "base/stopwatch.h"

namespace xorbit {

// 16 MiB, so that a run in the tests is short, unless XORBIT_BENCH_MIB says otherwise; what is no number of MiB ends the
// process.
inline uint64_t BenchBytes() {
  uint64_t mebibytes = 16;
  if (const char* text = std::getenv("XORBIT_BENCH_MIB"); text != nullptr) {
    const auto [end, error] = std::from_chars(text, text + std::strlen(text), mebibytes);
    if (error != std::errc() || *end != '\0' || mebibytes == 0) {
      std::fprintf(stderr, "XORBIT_BENCH_MIB must be a number of MiB, at least 1\n");
      std::exit(2);
    }
  }
  return mebibytes << 20;
}

// Where a machine is shared, processor time leaves out what other programs took.
struct Times {
  double wall_seconds;
  double cpu_seconds;  // of all threads
};

inline double CpuSeconds() {
  timespec time{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_nsec) / 1e9;
}

inline Times Measure(const std::function<void()>& work) {
  const Stopwatch watch;
  const double cpu_start = CpuSeconds();
  work();
  return {watch.seconds(), CpuSeconds() - cpu_start};
}

}  // namespace xorbit
