// What others see of a segment: its bytes, its absence, that they may not write it, and whether its maker lives.
#include "base/shared_memory.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>

namespace xorbit {
namespace {

class SharedMemoryTest : public testing::Test {
 protected:
  ~SharedMemoryTest() override { EXPECT_TRUE(SharedMemory::Remove(name_).ok()); }
  std::string name_ = "/xorbit-test-" + std::to_string(::getpid());
};

TEST_F(SharedMemoryTest, IsTheSameMemoryUntilItsNameIsRemoved) {
  EXPECT_EQ(SharedMemory::Open(name_).status().code(), Code::kNotFound);
  const SharedMemory made = SharedMemory::Create(name_, 10'000).value();
  EXPECT_EQ(SharedMemory::Create(name_, 10'000).status().code(), Code::kExists);
  SharedMemory found = SharedMemory::Open(name_).value();
  ASSERT_EQ(found.bytes().size(), 10'000);
  EXPECT_EQ(found.bytes()[9'999], 0);
  made.bytes()[9'999] = 7;
  EXPECT_EQ(found.bytes()[9'999], 7);
  EXPECT_TRUE(SharedMemory::Remove(name_).ok());
  EXPECT_TRUE(SharedMemory::Remove(name_).ok());
  EXPECT_EQ(SharedMemory::Open(name_).status().code(), Code::kNotFound);
  found.bytes()[0] = 3;
  EXPECT_EQ(made.bytes()[0], 3);
}

TEST_F(SharedMemoryTest, RefusesNamesAndSizesThatMakeNoSense) {
  for (const char* name : {"", "/", "a", "/a/b", "/..", "/../etc"}) {
    EXPECT_EQ(SharedMemory::Open(name).status().code(), Code::kUsage) << name;
  }
  EXPECT_EQ(SharedMemory::Open("/" + std::string(300, 'x')).status().code(), Code::kUsage);
  const Status huge = SharedMemory::Create(name_, uint64_t{1} << 60).status();
  EXPECT_EQ(huge.code(), Code::kIo) << huge.message();
  EXPECT_EQ(SharedMemory::Open(name_).status().code(), Code::kNotFound);
  const UniqueFd empty(::shm_open(name_.c_str(), O_RDWR | O_CREAT, 0600));
  EXPECT_EQ(SharedMemory::Open(name_).status().code(), Code::kRefused);
}

TEST_F(SharedMemoryTest, TheLockGoesWithItsProcess) {
  const SharedMemory made = SharedMemory::Create(name_, 100).value();
  int ready[2];
  ASSERT_EQ(::pipe(ready), 0);
  const pid_t child = ::fork();
  if (child == 0) {
    const SharedMemory own = SharedMemory::Open(name_).value();
    const uint8_t locked = own.TryLock() ? 1 : 0;
    (void)!::write(ready[1], &locked, 1);
    for (;;) ::pause();
  }
  uint8_t locked = 0;
  ASSERT_EQ(::read(ready[0], &locked, 1), 1);
  EXPECT_EQ(locked, 1);
  EXPECT_FALSE(made.TryLock());
  ::kill(child, SIGKILL);
  ASSERT_EQ(::waitpid(child, nullptr, 0), child);
  EXPECT_TRUE(made.TryLock());
  made.Unlock();
  EXPECT_TRUE(SharedMemory::Open(name_).value().TryLock());
}

// Whoever opens it by whatever name: the claim is on what is shared. It is nobody's way of telling that he lives.
TEST_F(SharedMemoryTest, OneAtATimeClaimsIt) {
  const SharedMemory made = SharedMemory::Create(name_, 100).value();
  const std::string alias = name_ + "-alias";
  ASSERT_EQ(::link(("/dev/shm" + name_).c_str(), ("/dev/shm" + alias).c_str()), 0);
  const SharedMemory found = SharedMemory::Open(alias).value();
  EXPECT_TRUE(SharedMemory::Remove(alias).ok());
  EXPECT_EQ(made.identity().value(), found.identity().value());
  ASSERT_TRUE(made.TryLock());
  {
    const SharedMemory first = SharedMemory::Open(name_).value();
    EXPECT_TRUE(first.TryClaim().ok());
    EXPECT_TRUE(first.TryClaim().ok());
    EXPECT_EQ(found.TryClaim().code(), Code::kRefused);
    EXPECT_FALSE(found.TryLock());
  }
  EXPECT_TRUE(found.TryClaim().ok());
  EXPECT_TRUE(SharedMemory::Remove(name_).ok());
  EXPECT_NE(SharedMemory::Create(name_, 100).value().identity().value(), made.identity().value());
}

TEST_F(SharedMemoryTest, SaysThatItWasCut) {
  constexpr uint64_t byte_count = 5 * 4'096;
  const SharedMemory made = SharedMemory::Create(name_, byte_count).value();
  EXPECT_TRUE(made.is_whole());
  EXPECT_TRUE(MakeRoom(made.bytes().subspan(100)).ok());
  ASSERT_EQ(::truncate(("/dev/shm" + name_).c_str(), 4'096), 0);
  EXPECT_FALSE(made.is_whole());
  EXPECT_TRUE(MakeRoom(made.bytes().first(4'096)).ok());
  EXPECT_EQ(MakeRoom(made.bytes().subspan(4'095)).code(), Code::kIo);
  ASSERT_EQ(::truncate(("/dev/shm" + name_).c_str(), byte_count), 0);
  EXPECT_TRUE(made.is_whole());
}

}  // namespace
}  // namespace xorbit
