// Both ends of a link and who publishes, at once: what lands, in which order, and when at the earliest.
#include "transport/shaped_link.h"

#include <gtest/gtest.h>

#include <atomic>
#include <cmath>

#include "base/parallel.h"
#include "transport/testing/memory_store.h"

namespace xorbit {
namespace {

LinkTurn TurnOf(std::string_view key) {
  if (key.ends_with("hint")) return LinkTurn::kNever;
  return key.ends_with("record") ? LinkTurn::kAfterOthers : LinkTurn::kAnytime;
}

// Runs all three at once; the link ends once `work` has.
Status RunLink(const LinkShape& shape, ObjectStore& near, ObjectStore& far, const std::function<Status()>& work,
               std::vector<LinkedObject>* objects) {
  XORBIT_ASSIGN_OR_RETURN(const ShapedLink link, ShapedLink::Make(shape));
  std::atomic<bool> is_over{false};
  return ParallelFor(3, 3, [&](uint64_t who) -> Status {
    if (who == 0) return link.Receive(far, objects);
    if (who == 1) return link.Send(near, TurnOf, [&] { return is_over.load(); });
    const Status status = work();
    is_over = true;
    return status;
  });
}

TEST(ShapedLink, CopiesEverythingAndLandsRecordsAfterWhatTheyVouchFor) {
  MemoryStore near;
  MemoryStore far;
  std::vector<LinkedObject> objects;
  const auto publish = [&]() -> Status {
    for (int version = 0; version < 20; ++version) {
      const std::string folder = "s/v" + std::to_string(100 + version) + "/";
      for (int owner = 0; owner < 5; ++owner) {
        const Buffer bytes(owner == 0 ? 0 : 300'000 * owner, static_cast<uint8_t>(version + owner));
        XORBIT_RETURN_IF_ERROR(near.PutNew(folder + "owner" + std::to_string(owner), bytes));
      }
      XORBIT_RETURN_IF_ERROR(near.PutNew(folder + "a-hint", Buffer(3)));
      XORBIT_RETURN_IF_ERROR(near.PutNew(folder + "record", Buffer(3)));
    }
    return {};
  };
  const Status status = RunLink({.gigabits_per_second = 100, .lanes = 3}, near, far, publish, &objects);
  ASSERT_TRUE(status.ok()) << status.message();
  EXPECT_EQ(far.object_count(), 120);
  ASSERT_EQ(objects.size(), 120);
  for (const LinkedObject& object : objects) {
    EXPECT_EQ(far.Get(object.key, UINT64_MAX).value(), near.Get(object.key, UINT64_MAX).value()) << object.key;
    if (!object.key.ends_with("record")) continue;
    const std::string folder = object.key.substr(0, object.key.size() - 6);
    for (const LinkedObject& other : objects) {
      if (!other.key.starts_with(folder)) continue;
      EXPECT_LE(other.landed_ns, object.landed_ns) << other.key;
    }
  }
}

TEST(ShapedLink, NothingLandsBeforeTheWireBringsIt) {
  MemoryStore near;
  MemoryStore far;
  std::vector<LinkedObject> objects;
  const LinkShape shape{.gigabits_per_second = 0.8, .one_way_delay = std::chrono::milliseconds(20), .lanes = 2};
  constexpr uint64_t kBytes = 2'000'000;  // 20 ms on the wire
  const auto publish = [&]() -> Status {
    XORBIT_RETURN_IF_ERROR(near.PutNew("a", Buffer(kBytes)));
    return near.PutNew("b", Buffer(kBytes));
  };
  const Status status = RunLink(shape, near, far, publish, &objects);
  ASSERT_TRUE(status.ok()) << status.message();
  ASSERT_EQ(objects.size(), 2);
  const int64_t first_ns = std::min(objects[0].sent_ns, objects[1].sent_ns);
  const int64_t last_ns = std::max(objects[0].landed_ns, objects[1].landed_ns);
  EXPECT_GE(last_ns - first_ns, 60'000'000);
  for (const LinkedObject& object : objects) EXPECT_GE(object.landed_ns, object.arrives_ns);
}

TEST(ShapedLink, AFarStoreThatFailsEndsBothEnds) {
  MemoryStore near;
  MemoryStore far;
  far.fault = [](std::string_view /*call*/, std::string_view key) {
    return key == "b" ? MemoryStore::Fault::kFails : MemoryStore::Fault::kNone;
  };
  std::vector<LinkedObject> objects;
  const auto publish = [&]() -> Status {
    for (const char* key : {"a", "b", "c", "record"}) XORBIT_RETURN_IF_ERROR(near.PutNew(key, Buffer(500'000)));
    return {};
  };
  EXPECT_FALSE(RunLink({.gigabits_per_second = 100}, near, far, publish, &objects).ok());
  EXPECT_FALSE(far.Stat("b").ok());
  EXPECT_FALSE(far.Stat("record").ok());
}

TEST(ShapedLink, RefusesShapesWithoutSense) {
  EXPECT_EQ(ShapedLink::Make({.gigabits_per_second = 0}).status().code(), Code::kUsage);
  EXPECT_EQ(ShapedLink::Make({.gigabits_per_second = NAN}).status().code(), Code::kUsage);
  EXPECT_EQ(ShapedLink::Make({.lanes = 0}).status().code(), Code::kUsage);
}

}  // namespace
}  // namespace xorbit
