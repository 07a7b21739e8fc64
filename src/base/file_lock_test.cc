// Whoever locks a file, and removes it with its folder while the lock is held, was alone inside.
#include <gtest/gtest.h>

#include <atomic>

#include "base/file.h"
#include "base/parallel.h"
#include "base/temporary_folder.h"

namespace xorbit {
namespace {

TEST(FileLockConcurrency, ALockThatIsRemovedStillExcludes) {
  constexpr int kThreads = 4;
  constexpr int kRounds = 2000;
  const TemporaryFolder folder;
  const fs::path control = folder / "control";
  std::atomic<int> holders{0};
  std::atomic<int> rounds{0};
  const Status status = ParallelFor(kThreads, kThreads, [&](uint64_t) -> Status {
    while (rounds < kRounds) {
      std::error_code ignored;
      fs::create_directory(control, ignored);
      Result<FileLock> lock = FileLock::TryAcquire(control / "lock");
      if (!lock.ok()) continue;  // held, or the folder has just gone
      const bool alone = holders.fetch_add(1) == 0;
      ++rounds;
      holders.fetch_sub(1);
      if (!alone) return CorruptError("two holders");
      XORBIT_RETURN_IF_ERROR(lock->RemoveFile());
      fs::remove(control, ignored);
    }
    return {};
  });
  EXPECT_TRUE(status.ok()) << status.message();
}

}  // namespace
}  // namespace xorbit
