// Loops must visit everything once, stop at the first error, and add up stage times.
#include "base/parallel.h"

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "base/stage_timer.h"

namespace xorbit {
namespace {

TEST(ParallelTest, VisitsEveryIndexOnce) {
  for (const int threads : {-1, 0, 1, 2, 7}) {
    for (const uint64_t count : {0, 1, 2, 1000}) {
      std::vector<std::atomic<int>> visits(count);
      const Status status = ParallelFor(threads, count, [&](uint64_t index) -> Status {
        visits[index].fetch_add(1, std::memory_order_relaxed);
        return {};
      });
      ASSERT_TRUE(status.ok());
      for (const auto& visit : visits) ASSERT_EQ(visit.load(), 1) << threads << " threads, " << count << " items";
    }
  }
}

TEST(ParallelTest, ReturnsAnErrorAndStops) {
  std::atomic<uint64_t> visits = 0;
  const Status status = ParallelFor(4, 1'000'000, [&](uint64_t index) -> Status {
    visits.fetch_add(1, std::memory_order_relaxed);
    return index >= 100 ? CorruptError("index " + std::to_string(index)) : Status();
  });
  EXPECT_EQ(status.code(), Code::kCorrupt);
  EXPECT_EQ(status.message().substr(0, 7), "index 1");
  EXPECT_LT(visits.load(), 1'000'000);
}

TEST(ParallelTest, TheFirstErrorWins) {
  FirstError error;
  EXPECT_FALSE(error.Stopped());
  error.Record({});
  EXPECT_FALSE(error.Stopped());
  error.Record(IoError("first"));
  error.Record(CorruptError("second"));
  EXPECT_TRUE(error.Stopped());
  const Status status = error.Take();
  EXPECT_EQ(status.code(), Code::kIo);
  EXPECT_EQ(status.message(), "first");
}

TEST(ParallelTest, HasAtLeastOneThread) { EXPECT_GE(DefaultThreadCount(), 1); }

TEST(StageTimersTest, AddUpByNameInOrderOfFirstUse) {
  StageTimers timers;
  timers.Add("read", 1);
  timers.Add("encode", 2);
  timers.Add("read", 4);
  ASSERT_EQ(timers.entries().size(), 2);
  EXPECT_EQ(timers.entries()[0].name, "read");
  EXPECT_EQ(timers.entries()[0].seconds, 5);
  EXPECT_EQ(timers.TotalSeconds(), 7);
  { const Stage stage(&timers, "write"); }
  { const Stage ignored(nullptr, "nowhere"); }
  ASSERT_EQ(timers.entries().size(), 3);
  EXPECT_GE(timers.entries()[2].seconds, 0);
}

}  // namespace
}  // namespace xorbit
