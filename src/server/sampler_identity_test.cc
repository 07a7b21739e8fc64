// A process that was started again must be another one, also where both have the same pid, as in containers.
#include "server/sampler_identity.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <thread>

namespace xorbit {
namespace {

TEST(SamplerIdentityTest, KnowsWhenTheProcessBegan) {
  const SamplerIdentity own = ThisSampler("");
  EXPECT_EQ(own.pid, static_cast<uint64_t>(::getpid()));
  EXPECT_GT(own.start_ticks, 0);
  EXPECT_EQ(ThisSampler("").start_ticks, own.start_ticks);
  std::this_thread::sleep_for(std::chrono::milliseconds(50));  // some ticks
  const pid_t child = ::fork();
  if (child == 0) ::_exit(ThisSampler("").start_ticks > own.start_ticks ? 0 : 1);
  int state = 0;
  ASSERT_EQ(::waitpid(child, &state, 0), child);
  EXPECT_TRUE(WIFEXITED(state) && WEXITSTATUS(state) == 0) << state;
}

}  // namespace
}  // namespace xorbit
