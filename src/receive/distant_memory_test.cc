// Live memory that the host may not read: chains are taken one delta after the other, forth and back, and never folded over it.
#include <gtest/gtest.h>

#include "backend/cpu/cpu_backend.h"
#include "base/testing/seed.h"
#include "receive/receiver.h"
#include "receive/testing/distant_memory_backend.h"
#include "receive/testing/live_stream.h"
#include "transport/testing/memory_store.h"

namespace xorbit {
namespace {

TEST(DistantMemory, TakesOneDeltaAfterTheOther) {
  SCOPED_TRACE("XORBIT_TEST_SEED=" + std::to_string(TestSeed()));
  Random random(TestSeed());
  const std::unique_ptr<Backend> backend = MakeCpuBackend();
  const DistantMemoryBackend distant(*backend);
  MemoryStore store;
  LiveStream made(random, *backend, store, 6);
  made.PublishAll();
  WatchingEngine engine(random, made, std::move(RandomRanks(random, made.layout(), 1).front()), 0);
  const std::unique_ptr<CohortMember> alone = AloneMember();
  const auto receiver = Receiver::Attach(made.stream(), distant, engine.memory(), engine, *alone, {}, 0);
  ASSERT_TRUE(receiver.ok()) << receiver.status().message();
  for (const uint64_t target : {5, 1, 6}) {
    const Status status = (*receiver)->Sync(target);
    ASSERT_TRUE(status.ok()) << status.message();
    EXPECT_TRUE(engine.Holds(target));
  }
  EXPECT_EQ(engine.wrong_count(), 0U);
}

}  // namespace
}  // namespace xorbit
