// Create-only under contention: threads, and processes, that all want one key.
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>

#include "base/parallel.h"
#include "base/temporary_folder.h"
#include "transport/folder_store.h"

namespace xorbit {
namespace {

constexpr uint64_t kKeys = 40;

std::string KeyOf(uint64_t i) { return "s/v" + std::to_string(i / 4) + "/key-" + std::to_string(i); }

TEST(FolderStoreRace, OneThreadWinsAndAllSeeItsBytes) {
  const TemporaryFolder folder;
  auto store = OpenFolderStore(PosixFileOps(), folder / "store");
  ASSERT_TRUE(store.ok());
  constexpr uint64_t thread_count = 8;
  std::vector<std::atomic<int>> wins(kKeys);
  const Status status = ParallelFor(thread_count, thread_count, [&](uint64_t thread) -> Status {
    const std::string mine = "thread " + std::to_string(thread);
    for (uint64_t i = 0; i < kKeys; ++i) {
      const Status put = (*store)->PutNew(KeyOf(i), AsBytes(mine));
      if (!put.ok() && put.code() != Code::kExists) return put;
      XORBIT_ASSIGN_OR_RETURN(const Buffer there, (*store)->Get(KeyOf(i), 100));
      if (put.ok()) ++wins[i];
      if (put.ok() != (AsText(there) == mine)) return CorruptError("the winner's bytes are not there");
    }
    return {};
  });
  EXPECT_TRUE(status.ok()) << status.message();
  for (const std::atomic<int>& count : wins) EXPECT_EQ(count.load(), 1);
}

// Exit code: how many keys this process won, or 255.
int RaceAsProcess(const fs::path& root, uint64_t process) {
  auto store = OpenFolderStore(PosixFileOps(), root);
  if (!store.ok()) return 255;
  int wins = 0;
  for (uint64_t i = 0; i < kKeys; ++i) {
    const Status put = (*store)->PutNew(KeyOf(i), AsBytes("process " + std::to_string(process)));
    if (!put.ok() && put.code() != Code::kExists) return 255;
    wins += put.ok() ? 1 : 0;
  }
  return wins;
}

TEST(FolderStoreRace, OneProcessWins) {
  const TemporaryFolder folder;
  std::vector<pid_t> children;
  for (uint64_t process = 0; process < 6; ++process) {
    const pid_t child = ::fork();
    ASSERT_GE(child, 0);
    if (child == 0) ::_exit(RaceAsProcess(folder / "store", process));
    children.push_back(child);
  }
  uint64_t wins = 0;
  for (const pid_t child : children) {
    int state = 0;
    ASSERT_EQ(::waitpid(child, &state, 0), child);
    ASSERT_TRUE(WIFEXITED(state) && WEXITSTATUS(state) != 255);
    wins += static_cast<uint64_t>(WEXITSTATUS(state));
  }
  EXPECT_EQ(wins, kKeys);
}

}  // namespace
}  // namespace xorbit
