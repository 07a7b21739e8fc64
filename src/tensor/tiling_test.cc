// The tiling proof against counting, and against sizes at which nobody could count.
#include "tensor/tiling.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "base/testing/seed.h"
#include "tensor/random_model.h"

namespace xorbit {
namespace {

TilingBox Box(uint32_t id, uint64_t origin, const std::vector<Digit>& digits) {
  TilingBox box;
  box.id = id;
  box.origin = origin;
  for (const Digit& digit : digits) box.Append(digit, &digit == &digits.back());
  return box;
}

// How often each place is held, box by box.
std::vector<int> Count(const std::vector<TilingBox>& boxes, uint64_t space) {
  std::vector<int> held(space, 0);
  for (const TilingBox& box : boxes) {
    for (uint64_t run = 0; run < box.run_count(); ++run) {
      uint64_t at = box.origin;
      uint64_t rest = run;
      for (uint32_t i = box.digit_count - 1; i-- > 0;) {
        at += rest % box.digits[i].count * box.digits[i].stride;
        rest /= box.digits[i].count;
      }
      for (uint64_t i = 0; i < box.run_length(); ++i) ++held[at + i];
    }
  }
  return held;
}

void ExpectSameVerdict(const std::vector<TilingBox>& boxes, uint64_t space) {
  const std::vector<int> held = Count(boxes, space);
  const bool twice = std::any_of(held.begin(), held.end(), [](int count) { return count > 1; });
  const bool missing = std::any_of(held.begin(), held.end(), [](int count) { return count == 0; });
  for (const TilingGoal goal : {TilingGoal::kExact, TilingGoal::kDisjoint}) {
    uint64_t budget = kTilingRunLimit;
    std::vector<TilingBox> scratch = boxes;
    const TilingFault fault = FindTilingFault(scratch, space, goal, &budget);
    ASSERT_NE(fault.kind, TilingFault::Kind::kTooIrregular);
    if (goal == TilingGoal::kDisjoint) {
      ASSERT_EQ(fault.found(), twice);
    } else {
      ASSERT_EQ(fault.found(), twice || missing);
    }
    if (!fault.found()) continue;
    ASSERT_LT(fault.at, space);
    if (fault.kind == TilingFault::Kind::kMissing) {
      ASSERT_EQ(held[fault.at], 0);
    } else {
      ASSERT_GT(held[fault.at], 1);
      ASSERT_NE(fault.first_id, fault.second_id);
    }
  }
}

// Cuts [origin, origin + rows x columns) of a matrix into boxes: by rows, columns, or every n-th row, again and again.
void Cut(Random& random, uint64_t origin, uint64_t rows, uint64_t columns, uint64_t pitch, std::vector<TilingBox>* boxes) {
  const uint64_t kind = Between(random, 0, boxes->size() > 12 ? 0 : 3);
  if (kind == 1 && rows > 1) {
    const uint64_t first = Between(random, 1, rows - 1);
    Cut(random, origin, first, columns, pitch, boxes);
    Cut(random, origin + first * pitch, rows - first, columns, pitch, boxes);
  } else if (kind == 2 && columns > 1) {
    const uint64_t first = Between(random, 1, columns - 1);
    Cut(random, origin, rows, first, pitch, boxes);
    Cut(random, origin + first, rows, columns - first, pitch, boxes);
  } else if (kind == 3 && rows % 2 == 0) {
    Cut(random, origin, rows / 2, columns, pitch * 2, boxes);
    Cut(random, origin + pitch, rows / 2, columns, pitch * 2, boxes);
  } else {
    boxes->push_back(Box(static_cast<uint32_t>(boxes->size()), origin, {{rows, pitch}, {columns, 1}}));
  }
}

TEST(TilingProperty, AgreesWithCountingEveryPlace) {
  Random random(TestSeed());
  for (int round = 0; round < 3000; ++round) {
    SCOPED_TRACE("seed " + std::to_string(TestSeed()) + ", round " + std::to_string(round));
    const uint64_t rows = Between(random, 1, 24);
    const uint64_t columns = Between(random, 1, 24);
    const uint64_t before = Between(random, 0, 3) == 0 ? Between(random, 0, 40) : 0;
    const uint64_t space = before + rows * columns + (Between(random, 0, 3) == 0 ? Between(random, 0, 40) : 0);
    std::vector<TilingBox> boxes;
    Cut(random, before, rows, columns, columns, &boxes);
    // Some are moved, or removed.
    if (Between(random, 0, 2) == 0) {
      TilingBox& box = boxes[Between(random, 0, boxes.size() - 1)];
      box.origin = Between(random, 0, space - box.extent());
    }
    if (Between(random, 0, 3) == 0) boxes.erase(boxes.begin() + static_cast<ptrdiff_t>(Between(random, 0, boxes.size() - 1)));
    ASSERT_NO_FATAL_FAILURE(ExpectSameVerdict(boxes, space));
  }
}

TEST(Tiling, ProvesWhatWouldBeTooManyRunsToList) {
  // Gate and up, 32 of every 64 places each: 2^30 runs.
  const uint64_t rows = uint64_t{1} << 30;
  std::vector<TilingBox> boxes = {Box(0, 7, {{rows, 64}, {32, 1}}), Box(1, 39, {{rows, 64}, {32, 1}})};
  uint64_t budget = kTilingRunLimit;
  EXPECT_FALSE(FindTilingFault(boxes, rows * 64 + 7, TilingGoal::kDisjoint, &budget).found());
  EXPECT_EQ(budget, kTilingRunLimit);
  boxes = {Box(0, 7, {{rows, 64}, {32, 1}}), Box(1, 38, {{rows, 64}, {32, 1}})};
  const TilingFault fault = FindTilingFault(boxes, rows * 64 + 7, TilingGoal::kDisjoint, &budget);
  EXPECT_EQ(fault.kind, TilingFault::Kind::kTwice);
  EXPECT_EQ(fault.at, 38U);
  // Rows of 64 against rows of 63 do not reduce.
  boxes = {Box(0, 0, {{rows, 64}, {32, 1}}), Box(1, 32, {{rows, 63}, {1, 1}})};
  EXPECT_EQ(FindTilingFault(boxes, rows * 65, TilingGoal::kDisjoint, &budget).kind, TilingFault::Kind::kTooIrregular);
}

}  // namespace
}  // namespace xorbit
