// Journal writer and reader: what was added comes back; anything else is refused, whatever the bytes.
#include <gtest/gtest.h>

#include <algorithm>

#include "base/xxh3.h"
#include "receive/journal_reader.h"
#include "receive/journal_writer.h"
#include "receive/testing/planned_change.h"

namespace xorbit {
namespace {

class JournalTest : public testing::Test {
 protected:
  Buffer WriteJournal(const PlannedChange& change) {
    const fs::path path = folder_.path() / "journal";
    auto writer = JournalWriter::Create(PosixFileOps(), path, {change.identity, change.journal_files()});
    EXPECT_TRUE(writer.ok());
    for (const OwnedPatch& patch : change.patches) EXPECT_TRUE((*writer)->Add(patch.View()).ok());
    EXPECT_TRUE((*writer)->Finish().ok());
    Result<Buffer> bytes = ReadWholeFile(path, uint64_t{1} << 30);
    EXPECT_TRUE(bytes.ok());
    return std::move(*bytes);
  }

  // One patch of two changes in the second file: small enough to try every byte.
  PlannedChange SmallChange() {
    PlannedChange change = PlanChange(random_, {200, 300}, 0.0);
    change.patches = {{1, 2, 150, {3, 9}, {1, 2, 3, 4}, {5, 6, 7, 8}}};
    return change;
  }

  // Makes the checksum of a tampered journal right again, as an attacker would.
  static void Reseal(Buffer& journal) {
    const Xxh3Digest digest = Xxh3Of(ConstBytes(journal).first(journal.size() - kJournalUncheckedBytes));
    StoreLe(journal.data() + journal.size() - 16, digest.low);
    StoreLe(journal.data() + journal.size() - 8, digest.high);
  }

  TemporaryFolder folder_;
  std::mt19937_64 random_{20240607};
};

TEST_F(JournalTest, WhatWasAddedComesBackInFileOrder) {
  const PlannedChange change = PlanChange(random_, {50'000, 3'000'000, 123}, 0.02);
  const Buffer bytes = WriteJournal(change);
  const Result<Journal> journal = Journal::Parse(bytes);
  ASSERT_TRUE(journal.ok()) << journal.status().message();
  EXPECT_EQ(journal->head().identity, change.identity);
  ASSERT_EQ(journal->files().size(), 3u);
  EXPECT_EQ(journal->files()[1].name, change.files[1].name);
  EXPECT_EQ(journal->files()[1].header_sha256, change.journal_files()[1].header_sha256);

  std::vector<const OwnedPatch*> expected;
  for (const OwnedPatch& patch : change.patches) expected.push_back(&patch);
  const auto begin = [](const OwnedPatch* patch) {
    return std::make_pair(patch->file_index, patch->file_offset + uint64_t{patch->positions[0]} * patch->unit_bytes);
  };
  std::sort(expected.begin(), expected.end(), [&](const auto* a, const auto* b) { return begin(a) < begin(b); });
  ASSERT_EQ(journal->block_count(), expected.size());
  uint64_t change_count = 0;
  for (uint64_t i = 0; i < expected.size(); ++i) {
    const PatchBlock block = journal->block(i);
    const OwnedPatch& patch = *expected[i];
    ASSERT_EQ(block.count, patch.positions.size());
    EXPECT_EQ(block.file_index, patch.file_index);
    EXPECT_EQ(block.file_offset, patch.file_offset);
    ASSERT_EQ(block.unit_bytes, patch.unit_bytes);
    EXPECT_TRUE(std::equal(patch.positions.begin(), patch.positions.end(), block.positions));
    EXPECT_TRUE(std::equal(patch.olds.begin(), patch.olds.end(), block.olds));
    EXPECT_TRUE(std::equal(patch.xors.begin(), patch.xors.end(), block.xors));
    change_count += block.count;
  }
  EXPECT_EQ(journal->change_count(), change_count);
}

TEST_F(JournalTest, EveryTruncationIsRefused) {
  const Buffer bytes = WriteJournal(SmallChange());
  ASSERT_TRUE(Journal::Parse(bytes).ok());
  for (size_t length = 0; length < bytes.size(); ++length) {
    EXPECT_EQ(Journal::Parse(ConstBytes(bytes).first(length)).status().code(), Code::kCorrupt) << length;
  }
}

TEST_F(JournalTest, EveryFlippedBitIsRefused) {
  Buffer bytes = WriteJournal(SmallChange());
  for (size_t at = 0; at < bytes.size(); ++at) {
    for (int bit = 0; bit < 8; ++bit) {
      bytes[at] ^= static_cast<uint8_t>(1 << bit);
      EXPECT_EQ(Journal::Parse(bytes).status().code(), Code::kCorrupt) << at;
      bytes[at] ^= static_cast<uint8_t>(1 << bit);
    }
  }
}

TEST_F(JournalTest, BytesAfterTheTrailerAreRefused) {
  Buffer bytes = WriteJournal(SmallChange());
  bytes.resize(bytes.size() + 8);
  EXPECT_EQ(Journal::Parse(bytes).status().code(), Code::kCorrupt);
}

TEST_F(JournalTest, AFlippedByteUnderARightChecksumNeverEscapesTheFile) {
  const Buffer good = WriteJournal(SmallChange());
  for (size_t at = 0; at + kJournalUncheckedBytes < good.size(); ++at) {
    for (const int mask : {0x01, 0x80, 0xff}) {
      Buffer bytes = good;
      bytes[at] ^= static_cast<uint8_t>(mask);
      Reseal(bytes);
      const Result<Journal> journal = Journal::Parse(bytes);
      if (!journal.ok()) continue;
      for (uint64_t i = 0; i < journal->block_count(); ++i) {
        const PatchBlock block = journal->block(i);
        const JournalFile& file = journal->files().at(block.file_index);
        for (uint32_t k = 0; k < block.count; ++k) {
          const uint64_t begin = block.file_offset + uint64_t{block.positions[k]} * block.unit_bytes;
          EXPECT_GE(begin, file.header_bytes);
          EXPECT_LE(begin + block.unit_bytes, file.file_bytes);
        }
      }
    }
  }
}

// Fields of the small journal, by the offsets of docs/formats/journal.md: two file records with names of 19 bytes.
constexpr size_t kFirstFile = 96;
constexpr size_t kSecondFile = kFirstFile + 64 + 24;
constexpr size_t kBlock = kSecondFile + 64 + 24;
constexpr size_t kPositions = kBlock + 24;
constexpr size_t kTrailer = kPositions + 3 * 8;

struct Tampering {
  const char* what;
  size_t at;
  Buffer bytes;
};

Buffer Le(uint64_t value, size_t byte_count) {
  Buffer bytes;
  AppendLe(bytes, value);
  bytes.resize(byte_count);
  return bytes;
}

TEST_F(JournalTest, HostileFieldsAreRefused) {
  const Buffer good = WriteJournal(SmallChange());
  ASSERT_EQ(good.size(), kTrailer + sizeof(JournalTrailerRecord));
  const std::vector<Tampering> tamperings = {
      {"magic", 0, Le(0, 1)},
      {"unknown flag", 12, Le(3, 4)},
      {"digests without flag", 12, Le(0, 4)},
      {"one file fewer", 80, Le(1, 4)},
      {"huge file count", 80, Le(0xffffffff, 4)},
      {"nonzero field of the head", 84, Le(1, 4)},
      {"wrong head length", 88, Le(kBlock + 8, 8)},
      {"header longer than its file", kFirstFile + 16, Le(1000, 8)},
      {"huge name", kFirstFile + 56, Le(0xffffffff, 4)},
      {"empty name", kFirstFile + 56, Le(0, 4)},
      {"nonzero field of a file", kFirstFile + 60, Le(1, 4)},
      {"name with a slash", kFirstFile + 64, Le('/', 1)},
      {"name with a zero", kFirstFile + 64, Le(0, 1)},
      {"name twice", kSecondFile + 64 + 6, Le('0', 1)},
      {"padding of a name", kFirstFile + 64 + 20, Le(1, 1)},
      {"file offset in the header", kBlock, Le(100, 8)},
      {"file offset beyond the end", kBlock, Le(290, 8)},
      {"file offset that overflows", kBlock, Le(~uint64_t{0} - 3, 8)},
      {"file that is not there", kBlock + 8, Le(2, 4)},
      {"unit of three", kBlock + 12, Le(3, 4)},
      {"unit of zero", kBlock + 12, Le(0, 4)},
      {"huge unit", kBlock + 12, Le(0x80000000, 4)},
      {"count of zero", kBlock + 16, Le(0, 4)},
      {"one change more", kBlock + 16, Le(3, 4)},
      {"huge count", kBlock + 16, Le(0xffffffff, 4)},
      {"nonzero field of a block", kBlock + 20, Le(1, 4)},
      {"equal positions", kPositions, Le(9, 2)},
      {"descending positions", kPositions, Le(10, 2)},
      {"position beyond the end", kPositions + 2, Le(75, 2)},
      {"padding of positions", kPositions + 4, Le(1, 1)},
      {"padding of old values", kPositions + 8 + 4, Le(1, 1)},
      {"padding of XORs", kPositions + 16 + 4, Le(1, 1)},
      {"trailer magic", kTrailer, Le(0, 1)},
      {"block count", kTrailer + 8, Le(2, 8)},
      {"change count", kTrailer + 16, Le(3, 8)},
      {"length", kTrailer + 24, Le(0, 8)},
  };
  for (const Tampering& tampering : tamperings) {
    Buffer bytes = good;
    std::copy(tampering.bytes.begin(), tampering.bytes.end(), bytes.begin() + static_cast<ptrdiff_t>(tampering.at));
    ASSERT_NE(bytes, good) << tampering.what;
    Reseal(bytes);
    EXPECT_EQ(Journal::Parse(bytes).status().code(), Code::kCorrupt) << tampering.what;
  }
}

TEST_F(JournalTest, LaterVersionsAreUnsupportedNotDamaged) {
  Buffer bytes = WriteJournal(SmallChange());
  bytes[8] = 2;
  Reseal(bytes);
  EXPECT_EQ(Journal::Parse(bytes).status().code(), Code::kUnsupported);
}

TEST_F(JournalTest, TheWriterRefusesPatchesOutsideTheFiles) {
  const PlannedChange change = SmallChange();
  const fs::path path = folder_.path() / "journal";
  auto writer = JournalWriter::Create(PosixFileOps(), path, {change.identity, change.journal_files()});
  ASSERT_TRUE(writer.ok());
  for (OwnedPatch bad : {OwnedPatch{2, 2, 150, {3}, {1, 2}, {5, 6}}, OwnedPatch{1, 3, 150, {3}, {1, 2, 3}, {4, 5, 6}},
                         OwnedPatch{1, 2, 122, {3}, {1, 2}, {5, 6}}, OwnedPatch{1, 2, 150, {75}, {1, 2}, {5, 6}},
                         OwnedPatch{1, 1, 150, {3, 3}, {1, 2}, {5, 6}}, OwnedPatch{1, 1, 150, {}, {}, {}}}) {
    EXPECT_EQ((*writer)->Add(bad.View()).code(), Code::kCorrupt);
  }
  writer->reset();
  EXPECT_FALSE(fs::exists(path)) << "an unfinished journal is removed";
}

}  // namespace
}  // namespace xorbit
