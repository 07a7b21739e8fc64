// Slices against a device by formula: everything is done once, in slices of the length asked for, at the share asked for.
#include "backend/cuda/slice_pacer.h"

#include <gtest/gtest.h>

namespace xorbit::cuda {
namespace {

struct Outcome {
  uint64_t slice_count = 0;
  uint64_t least_units = UINT64_MAX;
  double longest = 0;  // slice without waiting
  double working = 0;
  double pausing = 0;
};

// A device that takes `latency` for a slice and `unit_seconds` for each unit, and whose slice i waits wait(i) for a place.
template <typename Wait>
Outcome Simulate(uint64_t unit_count, const PaceLimits& limits, double latency, double unit_seconds, Wait wait) {
  SlicePacer pacer(unit_count, limits);
  Outcome outcome;
  uint64_t expected_begin = 0;
  while (!pacer.done()) {
    EXPECT_EQ(pacer.begin(), expected_begin);
    EXPECT_GT(pacer.end(), pacer.begin());
    expected_begin = pacer.end();
    const uint64_t units = pacer.end() - pacer.begin();
    const double work = latency + unit_seconds * static_cast<double>(units);
    outcome.longest = std::max(outcome.longest, work);
    outcome.working += work;
    if (expected_begin < unit_count) outcome.least_units = std::min(outcome.least_units, units);
    outcome.pausing += pacer.Finish(work + wait(outcome.slice_count++));
  }
  EXPECT_EQ(expected_begin, unit_count);
  return outcome;
}

constexpr auto kNoWait = [](uint64_t) { return 0.0; };

TEST(SlicePacer, KeepsLengthAndShare) {
  for (const double share : {1.0, 0.5, 0.02}) {
    const Outcome outcome = Simulate(1'000'000, {100e-6, share, 4}, 5e-6, 1e-6, kNoWait);
    EXPECT_NEAR(outcome.longest, 100e-6, 6e-6) << share;
    EXPECT_NEAR(outcome.working / (outcome.working + outcome.pausing), share, 0.02 * share) << share;
    EXPECT_LT(outcome.slice_count, 12'000U) << share;
  }
}

TEST(SlicePacer, DoesNotCutBelowWhatRunsAtOnce) {
  const Outcome outcome = Simulate(1'000, {100e-6, 0.5, 16}, 400e-6, 0, kNoWait);
  EXPECT_EQ(outcome.least_units, 16U);
  EXPECT_EQ(outcome.slice_count, 63U);
}

// Waits of a hundred slices' length in three slices of four change neither what a slice holds nor the pauses after it.
TEST(SlicePacer, DoesNotPauseForWaiting) {
  const PaceLimits limits{100e-6, 0.1, 1};
  const Outcome alone = Simulate(100'000, limits, 0, 1e-6, kNoWait);
  const Outcome waiting = Simulate(100'000, limits, 0, 1e-6, [](uint64_t slice) { return slice % 4 == 0 ? 0 : 10e-3; });
  EXPECT_NEAR(waiting.pausing, alone.pausing, 0.02 * alone.pausing);
  EXPECT_NEAR(static_cast<double>(waiting.slice_count), static_cast<double>(alone.slice_count), 10);
}

// The work changes its kind midway: its slices are as long again soon after.
TEST(SlicePacer, FollowsTheWork) {
  SlicePacer pacer(200'000, {100e-6, 0.5, 1});
  uint64_t long_slices = 0;
  while (!pacer.done()) {
    const double unit_seconds = pacer.begin() < 100'000 ? 0.1e-6 : 1e-6;
    const double seconds = unit_seconds * static_cast<double>(pacer.end() - pacer.begin());
    if (seconds > 110e-6) ++long_slices;
    pacer.Finish(seconds);
  }
  EXPECT_GE(long_slices, 1U);
  EXPECT_LE(long_slices, 9U);
}

TEST(SlicePacer, NothingToDo) { EXPECT_TRUE(SlicePacer(0, {100e-6, 1, 4}).done()); }

}  // namespace
}  // namespace xorbit::cuda
