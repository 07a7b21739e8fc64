// An update that was cut off anywhere is taken back by who finds its undo memory, on random live memory; and is left alone
// where that cannot be proven.
#include "backend/cpu/roll_back.h"

#include <gtest/gtest.h>

#include "backend/cpu/cpu_backend.h"
#include "backend/cpu/undo_log.h"
#include "backend/update_test_util.h"
#include "base/testing/seed.h"

namespace xorbit {
namespace {

class RollBackTest : public testing::Test {
 protected:
  RollBackTest() : words_(50'000) {}

  MutableBytes undo_bytes() { return {reinterpret_cast<uint8_t*>(words_.data()), words_.size() * 8}; }

  // An update on a live memory that holds what it starts from, waiting in undo memory.
  struct World {
    World(RollBackTest& test, uint64_t seed)
        : random(seed),
          update(random, *test.backend_, CodecId::kSparse, 3'000),
          cohort(random, update.layout, 1),
          live(*cohort.ranks.front()) {
      live.Fill(update.after.bytes());
      there = live.Snapshot();
      live.Fill(update.before.bytes());
      here = live.Snapshot();
      std::ranges::fill(test.undo_bytes(), 0);
      memory = UndoMemory::Open(test.undo_bytes()).value();
      prepared = test.Prepare(*this, {.threads = 2, .undo_memory = &memory, .undo_versions = {3, 4, {5, 6}, {}, {}}});
    }
    Random random;
    RandomUpdate update;
    RandomCohort cohort;
    RandomLiveMemory& live;
    Buffer here;
    Buffer there;
    UndoMemory memory;
    std::unique_ptr<PreparedUpdate> prepared;
  };

  std::unique_ptr<PreparedUpdate> Prepare(const World& world, const PrepareOptions& options) {
    auto prepared = backend_->Prepare(world.update.layout, world.update.encoded->payloads(), world.live.memory(), options);
    EXPECT_TRUE(prepared.ok()) << prepared.status().message();
    return prepared.ok() ? std::move(prepared).value() : nullptr;
  }
  Status RollBack(const World& world) {
    auto found = UndoMemory::Open(undo_bytes());
    if (!found.ok()) return found.status();
    return backend_->RollBack(world.update.layout, world.live.memory(), &*found, 2);
  }
  UndoRecord Found() { return *UndoMemory::Open(undo_bytes()).value().record(); }

  std::unique_ptr<Backend> backend_ = MakeCpuBackend();
  std::vector<uint64_t> words_;
};

TEST_F(RollBackTest, SaysAtEachStepWhatLiveMemoryHolds) {
  for (uint64_t seed = TestSeed(); seed < TestSeed() + 20; ++seed) {
    SCOPED_TRACE("XORBIT_TEST_SEED=" + std::to_string(seed));
    World world(*this, seed);
    ASSERT_NE(world.prepared, nullptr);
    EXPECT_EQ(Found().state, UndoState::kWaiting);
    EXPECT_EQ(Found().versions.after, (StateDigest{5, 6} + world.update.encoded->change()));
    EXPECT_TRUE(RollBack(world).ok());
    for (int i = 0; i < 2; ++i) {
      ASSERT_TRUE(world.prepared->Apply().ok());
      EXPECT_EQ(world.live.Snapshot(), world.there);
      EXPECT_EQ(Found().state, UndoState::kArmed);
      ASSERT_TRUE(world.prepared->Undo().ok());
      EXPECT_EQ(world.live.Snapshot(), world.here);
      EXPECT_EQ(Found().state, UndoState::kWaiting);
    }
    ASSERT_TRUE(world.prepared->Apply().ok());
    ASSERT_TRUE(RollBack(world).ok());
    EXPECT_EQ(world.live.Snapshot(), world.here);
    EXPECT_EQ(Found().state, UndoState::kWaiting);

    world.memory = UndoMemory::Open(undo_bytes()).value();
    world.prepared = Prepare(world, {.undo_memory = &world.memory});
    ASSERT_NE(world.prepared, nullptr);
    ASSERT_TRUE(world.prepared->Apply().ok());
    world.prepared->Settle();
    EXPECT_EQ(Found().state, UndoState::kDone);
    EXPECT_TRUE(RollBack(world).ok());
    EXPECT_EQ(world.live.Snapshot(), world.there);
  }
}

// Whatever subset of the elements has been stored: threads are cut off each where it is.
TEST_F(RollBackTest, TakesBackAnySubsetOfTheStores) {
  uint64_t cut_count = 0;
  for (uint64_t seed = TestSeed(); seed < TestSeed() + 40; ++seed) {
    SCOPED_TRACE("XORBIT_TEST_SEED=" + std::to_string(seed));
    World world(*this, seed);
    ASSERT_NE(world.prepared, nullptr);
    const Buffer log = world.memory.ProvenLog().value();
    const LiveMemory live = world.live.memory();
    std::vector<MutableBytes> places(live.regions.begin(), live.regions.end());
    places.insert(places.end(), live.kept.begin(), live.kept.end());
    const std::vector<TouchView> views = ParseUndoLog(log, places).value();
    for (const TouchView& view : views) {
      for (TouchBlock block : view.blocks) {
        const TouchBlock whole = block;
        for (uint64_t i = 0; i < whole.count; ++i) {
          if (world.random() % 2 == 0) continue;
          block.count = 1;
          block.first = whole.first + i;
          block.value_offset = whole.value_offset + i * ValueBytesOf(whole.width_bits);
          EXPECT_TRUE((TouchView{{&block, 1}, view.offsets, view.xors, view.olds, places}.StoreNew()));
        }
      }
    }
    world.memory.SetState(UndoState::kArmed);
    cut_count += world.live.Snapshot() != world.here && world.live.Snapshot() != world.there ? 1 : 0;
    ASSERT_TRUE(RollBack(world).ok());
    EXPECT_EQ(world.live.Snapshot(), world.here);
    ASSERT_TRUE(RollBack(world).ok());
    EXPECT_EQ(world.live.Snapshot(), world.here);
  }
  EXPECT_GT(cut_count, 10);
}

TEST_F(RollBackTest, LeavesAloneWhatItCannotProve) {
  uint64_t tried = 0;
  for (uint64_t seed = TestSeed(); seed < TestSeed() + 20; ++seed) {
    SCOPED_TRACE("XORBIT_TEST_SEED=" + std::to_string(seed));
    World world(*this, seed);
    ASSERT_NE(world.prepared, nullptr);
    if (world.here == world.there) continue;
    ++tried;
    ASSERT_TRUE(world.prepared->Apply().ok());
    const auto [victim, foreign] = ForeignValue(world.random, &world.live, world.here, world.there);
    const uint8_t kept = *victim;
    *victim = foreign;
    const Buffer spoilt = world.live.Snapshot();
    EXPECT_EQ(RollBack(world).code(), Code::kRefused);
    EXPECT_EQ(world.live.Snapshot(), spoilt);
    *victim = kept;

    const uint64_t at = UndoMemory::kLogOffset + Between(world.random, 0, Found().log_bytes - 1);
    undo_bytes()[at] ^= 0x10;
    EXPECT_EQ(RollBack(world).code(), Code::kCorrupt);
    EXPECT_EQ(world.live.Snapshot(), world.there);
    undo_bytes()[at] ^= 0x10;
    ASSERT_TRUE(RollBack(world).ok());
    EXPECT_EQ(world.live.Snapshot(), world.here);
  }
  EXPECT_GT(tried, 5);
}

// Undo memory is others' too: whatever becomes of it between Prepare and Apply, the update goes on as it was prepared, and the
// next process learns that its log is worth nothing.
TEST_F(RollBackTest, WhatOthersWriteToUndoMemoryChangesNoUpdate) {
  for (uint64_t seed = TestSeed(); seed < TestSeed() + 20; ++seed) {
    SCOPED_TRACE("XORBIT_TEST_SEED=" + std::to_string(seed));
    World world(*this, seed);
    ASSERT_NE(world.prepared, nullptr);
    const MutableBytes log = undo_bytes().subspan(UndoMemory::kLogOffset);
    for (uint8_t& byte : log) byte = static_cast<uint8_t>(world.random());
    ASSERT_TRUE(world.prepared->Apply().ok());
    EXPECT_EQ(world.live.Snapshot(), world.there);
    EXPECT_EQ(RollBack(world).code(), Code::kCorrupt);
    std::ranges::fill(log, 0xff);
    ASSERT_TRUE(world.prepared->Undo().ok());
    EXPECT_EQ(world.live.Snapshot(), world.here);
    std::ranges::fill(undo_bytes(), 0xff);
    ASSERT_TRUE(world.prepared->Apply().ok());
    world.prepared->Settle();
    EXPECT_EQ(world.live.Snapshot(), world.there);
  }
}

// A log whose seal is right all the same never leads outside live memory.
TEST_F(RollBackTest, RefusesALogThatLeavesItsPlaces) {
  Buffer place(100);
  const MutableBytes places[] = {place};
  const auto parse = [&](const TouchBlock& block, uint32_t offset, uint64_t log_end) {
    std::vector<uint64_t> words(16);
    const UndoLogRecord record{1, 1, 8};
    auto* bytes = reinterpret_cast<uint8_t*>(words.data());
    std::memcpy(bytes, &record, sizeof(record));
    std::memcpy(bytes + 24, &block, sizeof(block));
    std::memcpy(bytes + 64, &offset, sizeof(offset));
    return ParseUndoLog({bytes, log_end}, places).status().code();
  };
  const TouchBlock good{0, 0, 1, 0, 32, 0};
  EXPECT_EQ(parse(good, 96, 88), Code::kOk);
  EXPECT_EQ(parse(good, 97, 88), Code::kCorrupt);
  EXPECT_EQ(parse({UINT64_MAX, 0, 1, 0, 32, 0}, 97, 88), Code::kOk);
  EXPECT_EQ(parse({UINT64_MAX, 0, 1, 0, 32, 0}, 0, 88), Code::kCorrupt);
  EXPECT_EQ(parse({0, 0, 1, 0, 4, 0}, 199, 88), Code::kOk);
  EXPECT_EQ(parse({0, 0, 1, 0, 4, 0}, 200, 88), Code::kCorrupt);
  EXPECT_EQ(parse({0, 0, 1, 5, 32, 0}, 0, 88), Code::kCorrupt);
  EXPECT_EQ(parse({0, 0, 2, 0, 32, 0}, 0, 88), Code::kCorrupt);
  EXPECT_EQ(parse({0, 1, 1, 0, 32, 0}, 0, 88), Code::kCorrupt);
  EXPECT_EQ(parse({0, 0, 1, 0, 24, 0}, 0, 88), Code::kCorrupt);
  EXPECT_EQ(parse({0, 0, 1, 0, 32, 1}, 0, 88), Code::kCorrupt);
  EXPECT_EQ(parse(good, 0, 80), Code::kCorrupt);
  EXPECT_EQ(parse(good, 0, 16), Code::kCorrupt);
}

}  // namespace
}  // namespace xorbit
