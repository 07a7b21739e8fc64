// A journal that several threads add to at once holds every block, whole.
#include <gtest/gtest.h>

#include "base/parallel.h"
#include "receive/journal_reader.h"
#include "receive/journal_writer.h"
#include "receive/testing/planned_change.h"

namespace xorbit {
namespace {

TEST(JournalConcurrencyTest, BlocksOfManyThreadsAreAllThere) {
  std::mt19937_64 random(5);
  const PlannedChange change = PlanChange(random, {400'000, 900'000}, 0.05);
  const auto write_journal = [&change](const fs::path& path, int threads) {
    auto writer = JournalWriter::Create(PosixFileOps(), path, {change.identity, change.journal_files()});
    EXPECT_TRUE(writer.ok());
    const Status added = ParallelFor(threads, change.patches.size(),
                                     [&](uint64_t index) { return (*writer)->Add(change.patches[index].View()); });
    EXPECT_TRUE(added.ok());
    EXPECT_TRUE((*writer)->Finish().ok());
    return std::move(*ReadWholeFile(path, uint64_t{1} << 30));
  };
  const TemporaryFolder folder;
  const Buffer bytes_of_one = write_journal(folder.path() / "one", 1);
  const Buffer bytes_of_four = write_journal(folder.path() / "four", 4);
  const Result<Journal> one = Journal::Parse(bytes_of_one);
  const Result<Journal> four = Journal::Parse(bytes_of_four);
  ASSERT_TRUE(one.ok() && four.ok());
  ASSERT_EQ(one->block_count(), four->block_count());
  EXPECT_EQ(one->change_count(), four->change_count());
  for (uint64_t i = 0; i < one->block_count(); ++i) {
    const PatchBlock a = one->block(i);
    const PatchBlock b = four->block(i);
    ASSERT_EQ(a.file_offset, b.file_offset);
    ASSERT_EQ(a.count, b.count);
    EXPECT_TRUE(std::equal(a.xors, a.xors + uint64_t{a.count} * a.unit_bytes, b.xors));
  }
}

}  // namespace
}  // namespace xorbit
