// What others see of a segment: its bytes, its absence, that they may not write it, and whether its maker lives.
#include "base/shared_segment.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>

namespace xorbit {
namespace {

class SharedSegmentTest : public testing::Test {
 protected:
  ~SharedSegmentTest() override { EXPECT_TRUE(SharedSegment::Remove(name_).ok()); }
  std::string name_ = "/xorbit-test-" + std::to_string(::getpid());
};

TEST_F(SharedSegmentTest, IsTheSameMemoryUntilItsNameIsRemoved) {
  EXPECT_EQ(SharedSegment::Open(name_).status().code(), Code::kNotFound);
  const SharedSegment made = SharedSegment::Create(name_, 10'000).value();
  EXPECT_EQ(SharedSegment::Create(name_, 10'000).status().code(), Code::kExists);
  SharedSegment found = SharedSegment::Open(name_).value();
  ASSERT_EQ(found.bytes().size(), 10'000);
  EXPECT_EQ(found.bytes()[9'999], 0);
  made.bytes()[9'999] = 7;
  EXPECT_EQ(found.bytes()[9'999], 7);
  EXPECT_TRUE(SharedSegment::Remove(name_).ok());
  EXPECT_TRUE(SharedSegment::Remove(name_).ok());
  EXPECT_EQ(SharedSegment::Open(name_).status().code(), Code::kNotFound);
  found.bytes()[0] = 3;
  EXPECT_EQ(made.bytes()[0], 3);
}

TEST_F(SharedSegmentTest, RefusesNamesAndSizesThatMakeNoSense) {
  for (const char* name : {"", "/", "a", "/a/b", "/..", "/../etc"}) {
    EXPECT_EQ(SharedSegment::Open(name).status().code(), Code::kUsage) << name;
  }
  EXPECT_EQ(SharedSegment::Open("/" + std::string(300, 'x')).status().code(), Code::kUsage);
  const Status huge = SharedSegment::Create(name_, uint64_t{1} << 60).status();
  EXPECT_EQ(huge.code(), Code::kIo) << huge.message();
  EXPECT_EQ(SharedSegment::Open(name_).status().code(), Code::kNotFound);
  const UniqueFd empty(::shm_open(name_.c_str(), O_RDWR | O_CREAT, 0600));
  EXPECT_EQ(SharedSegment::Open(name_).status().code(), Code::kRefused);
}

TEST_F(SharedSegmentTest, TheLockGoesWithItsProcess) {
  const SharedSegment made = SharedSegment::Create(name_, 100).value();
  int ready[2];
  ASSERT_EQ(::pipe(ready), 0);
  const pid_t child = ::fork();
  if (child == 0) {
    const SharedSegment own = SharedSegment::Open(name_).value();
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
  EXPECT_TRUE(SharedSegment::Open(name_).value().TryLock());
}

}  // namespace
}  // namespace xorbit
