// The gate's promise, by threads that would tear a pair of words if it were broken: whoever is inside sees both halves of one
// version, and that version is the one the gate has named.
#include "receive/engine_gate.h"

#include <gtest/gtest.h>

#include <thread>
#include <vector>

namespace xorbit {
namespace {

std::chrono::steady_clock::time_point In(int seconds) {
  return std::chrono::steady_clock::now() + std::chrono::seconds(seconds);
}

TEST(EngineGate, NobodyInsideSeesAChange) {
  alignas(64) std::array<uint8_t, sizeof(GateWords)> memory{};
  const EngineGate gate = EngineGate::Make(memory, 5);
  std::array<uint64_t, 2> weights{};  // plain memory: ThreadSanitizer sees a race
  std::atomic<bool> is_over{false};
  std::atomic<uint64_t> torn{0};
  std::atomic<uint64_t> steps{0};
  std::vector<std::jthread> readers;
  for (int i = 0; i < 3; ++i) {
    readers.emplace_back([&] {
      while (!is_over) {
        const std::optional<uint64_t> version = gate.TryEnter();
        if (!version) {
          std::this_thread::yield();
          continue;
        }
        torn += weights[0] == *version && weights[1] == *version ? 0 : 1;
        ++steps;
        gate.Leave();
      }
    });
  }
  for (uint64_t version = 1; version <= 300; ++version) {
    ASSERT_TRUE(gate.Close(In(60)));
    weights = {version, version};
    gate.Open(version);
    while (steps < version) std::this_thread::yield();
  }
  is_over = true;
  readers.clear();
  EXPECT_EQ(torn, 0);
  EXPECT_EQ(gate.turn_count(), 1 + 299 * 2 + 1);
}

TEST(EngineGate, IsAsItWasIfSomebodyStaysInside) {
  alignas(64) std::array<uint8_t, sizeof(GateWords)> memory{};
  EXPECT_FALSE(EngineGate::Find(memory));
  EngineGate::Make(memory, 5).Open(7);
  const EngineGate gate = EngineGate::Find(memory).value();
  EXPECT_EQ(gate.epoch(), 5);
  ASSERT_EQ(gate.TryEnter(), 7);
  EXPECT_FALSE(gate.Close(std::chrono::steady_clock::now() + std::chrono::milliseconds(2)));
  EXPECT_FALSE(gate.is_closed());
  ASSERT_EQ(gate.TryEnter(), 7);
  EXPECT_EQ(gate.inside_count(), 2);
  gate.Leave();
  gate.Leave();
  ASSERT_TRUE(gate.Close(In(60)));
  EXPECT_FALSE(gate.TryEnter());
  // Who closes it after a dead one finds it closed, and leaves it so if it gives up.
  ASSERT_TRUE(gate.Close(In(60)));
  EXPECT_TRUE(gate.is_closed());
  EXPECT_EQ(gate.turn_count() % 2, 1);
  gate.Open(8);
  EXPECT_EQ(gate.turn_count() % 2, 0);
  EXPECT_EQ(gate.TryEnter(), 8);
}

TEST(EngineGate, SaysWhetherCachesAreOfTheVersionThatIsOpen) {
  alignas(64) std::array<uint8_t, sizeof(GateWords)> memory{};
  const EngineGate gate = EngineGate::Make(memory, 5);
  gate.Open(0);
  EXPECT_FALSE(gate.is_clean());
  gate.NoteClean(0);
  EXPECT_TRUE(gate.is_clean());
  gate.Open(0);
  EXPECT_TRUE(gate.is_clean());
  // Forth and back again without a word: what was cached at 1 is not of 0.
  gate.Open(1);
  EXPECT_FALSE(gate.is_clean());
  gate.Open(0);
  EXPECT_FALSE(gate.is_clean());
}

}  // namespace
}  // namespace xorbit
