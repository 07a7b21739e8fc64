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

// Told of every stage as it begins and ends, on the thread that runs it: for profilers.
class StageObserver {
 public:
  StageObserver() = default;
  StageObserver(const StageObserver&) = delete;
  StageObserver& operator=(const StageObserver&) = delete;
  virtual ~StageObserver() = default;
  virtual void Begin(const std::string& name) = 0;
  virtual void End(const std::string& name) = 0;
};
// One for the process, from now on and for ever: `observer` must never end. Null: nobody, as at the start.
void SetStageObserver(StageObserver* observer);

// Adds the time from construction to destruction to `timers`, which must outlive it and may be null.
class Stage {
 public:
  Stage(StageTimers* timers, std::string_view name);
  ~Stage();
  Stage(const Stage&) = delete;
  Stage& operator=(const Stage&) = delete;

 private:
  StageTimers* timers_;
  std::string name_;
  StageObserver* observer_;
  Stopwatch watch_;
};

}  // namespace xorbit
