// Where did the time go: each stage of the journey opens a Stage; the totals are printed by --json and by benchmarks.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/stopwatch.h"

namespace xorbit {

// Wall time per named stage, in the order in which stages were first opened. Not thread-safe: stages are opened by the thread
// that runs the journey, which waits for the workers inside a stage.
class StageTimers {
 public:
  struct Entry {
    std::string name;
    double seconds = 0;
  };

  void Add(std::string_view name, double seconds);
  const std::vector<Entry>& entries() const { return entries_; }
  double TotalSeconds() const;

 private:
  std::vector<Entry> entries_;
};

// Adds the time from construction to destruction to `timers`, which must outlive it and may be null.
class Stage {
 public:
  Stage(StageTimers* timers, std::string_view name) : timers_(timers), name_(name) {}
  ~Stage();
  Stage(const Stage&) = delete;
  Stage& operator=(const Stage&) = delete;

 private:
  StageTimers* timers_;
  std::string name_;
  Stopwatch watch_;
};

}  // namespace xorbit
