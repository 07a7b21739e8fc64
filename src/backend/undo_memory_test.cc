// Undo memory says one thing at any moment, wherever its writer is killed, and refuses what it cannot know.
#include "backend/undo_memory.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <vector>

#include "base/testing/seed.h"

namespace xorbit {
namespace {

class UndoMemoryTest : public testing::Test {
 protected:
  UndoMemoryTest() : map_(CanonicalMap(Layout())), live_{&map_, {}, {}}, words_(1'000) {}

  MutableBytes bytes() { return {reinterpret_cast<uint8_t*>(words_.data()), words_.size() * 8}; }
  UndoMemory Open() { return UndoMemory::Open(bytes()).value(); }
  UndoRecord Record(uint64_t from, uint64_t to) const {
    return UndoRecordOf(live_, {from, to, {from, from + 1}, {to, to + 1}, {7, 8}});
  }
  // Seals a log of this many bytes of one value.
  void Seal(UndoMemory* memory, uint64_t from, uint64_t to, uint64_t log_bytes, uint8_t value) {
    std::ranges::fill(memory->log_room().first(log_bytes), value);
    memory->Seal(Record(from, to), log_bytes);
  }

  static const uint8_t* AsBytesOf(const std::vector<uint64_t>& words) { return reinterpret_cast<const uint8_t*>(words.data()); }
  static uint64_t SealOffset(const UndoRecord& record) { return 64 + record.sequence % 2 * 192 + offsetof(UndoRecord, xxh3); }

  LiveMap map_;
  LiveMemory live_;
  std::vector<uint64_t> words_;
};

TEST_F(UndoMemoryTest, IsFoundAsItWasLeft) {
  UndoMemory memory = Open();
  EXPECT_FALSE(memory.record());
  EXPECT_TRUE(Open().record() == std::nullopt);
  for (uint64_t version = 0; version < 5; ++version) {
    Seal(&memory, version, version + 1, 100 * version, static_cast<uint8_t>(version));
    for (const UndoState state : {UndoState::kWaiting, UndoState::kArmed, UndoState::kWaiting, UndoState::kDone}) {
      memory.SetState(state);
      const UndoMemory found = Open();
      ASSERT_TRUE(found.record());
      EXPECT_EQ(found.record()->state, state);
      EXPECT_EQ(found.record()->versions.from, version);
      EXPECT_EQ(found.record()->versions.to, version + 1);
      EXPECT_EQ(found.record()->versions.after, (StateDigest{version + 1, version + 2}));
      EXPECT_TRUE(CheckUndoRecord(*found.record(), live_).ok());
      const Result<Buffer> log = found.ProvenLog();
      ASSERT_TRUE(log.ok());
      EXPECT_EQ(log->size(), 100 * version);
    }
    memory = Open();  // and goes on from there
  }
}

// Every mixture of the bytes before and after that a writer who is killed may leave: prefixes, suffixes, any subset. Its seal,
// which is written last, is not whole then.
TEST_F(UndoMemoryTest, ARecordCountsWhollyOrNotAtAll) {
  std::mt19937_64 random(TestSeed());
  uint64_t torn_count = 0;
  for (uint64_t round = 0; round < 4; ++round) {
    UndoMemory memory = Open();
    Seal(&memory, round, round, 0, 0);
    const std::vector<uint64_t> before = words_;
    Seal(&memory, round + 1, round + 2, 0, 0);
    const std::vector<uint64_t> after = words_;
    for (int i = 0; i < 3'000; ++i) {
      const uint64_t cut = random() % UndoMemory::kLogOffset;
      const uint64_t way = random() % 3;
      words_ = after;
      for (uint64_t at = 0; at < UndoMemory::kLogOffset; ++at) {
        const bool is_old = way == 0 ? at < cut : way == 1 ? at >= cut : random() % 8 == 0;
        if (is_old) bytes()[at] = AsBytesOf(before)[at];
      }
      const uint64_t seal = SealOffset(*memory.record());
      if (std::equal(bytes().data() + seal, bytes().data() + seal + sizeof(Xxh3Digest), AsBytesOf(after) + seal)) continue;
      ++torn_count;
      const auto found = UndoMemory::Open(bytes());
      ASSERT_TRUE(found.ok()) << found.status().message();
      ASSERT_TRUE(found->record());
      EXPECT_EQ(found->record()->versions.from, round);
    }
    words_ = after;
    EXPECT_EQ(Open().record()->versions.from, round + 1);
  }
  EXPECT_GT(torn_count, 4'000);
}

TEST_F(UndoMemoryTest, RefusesWhatItCannotKnow) {
  EXPECT_EQ(UndoMemory::Open(bytes().first(100)).status().code(), Code::kUsage);
  EXPECT_EQ(UndoMemory::Open(bytes().subspan(1)).status().code(), Code::kUsage);
  UndoMemory memory = Open();
  Seal(&memory, 3, 4, 500, 9);
  memory.SetState(UndoState::kArmed);
  bytes()[UndoMemory::kLogOffset + 77] ^= 1;
  EXPECT_EQ(Open().ProvenLog().status().code(), Code::kCorrupt);
  bytes()[UndoMemory::kLogOffset + 77] ^= 1;
  EXPECT_TRUE(Open().ProvenLog().ok());

  LiveMap other_epoch = [&] {
    LiveMapSpec spec;
    spec.epoch = 1;
    return LiveMap::Make(Layout(), std::move(spec)).value();
  }();
  const UndoRecord record = *Open().record();
  EXPECT_EQ(CheckUndoRecord(record, {&other_epoch, {}, {}}).code(), Code::kRefused);
  const std::vector<MutableBytes> regions = {bytes()};
  EXPECT_EQ(CheckUndoRecord(record, {&map_, regions, {}}).code(), Code::kRefused);

  const std::vector<uint64_t> good = words_;
  const auto code_with = [&](uint64_t at) {
    words_ = good;
    bytes()[at] ^= 1;
    return UndoMemory::Open(bytes()).status().code();
  };
  EXPECT_EQ(code_with(0), Code::kRefused);         // magic
  EXPECT_EQ(code_with(8), Code::kRefused);         // version of the format
  EXPECT_EQ(code_with(64 + 192), Code::kCorrupt);  // the only record
  EXPECT_EQ(code_with(64 + 192 + offsetof(UndoRecord, state)), Code::kCorrupt);
}

}  // namespace
}  // namespace xorbit
