// Receivers of random models in random live memory, over a store in memory.
#pragma once

#include <gtest/gtest.h>

#include <memory>

#include "backend/cpu/cpu_backend.h"
#include "base/testing/seed.h"
#include "receive/receiver.h"
#include "receive/testing/live_stream.h"
#include "transport/testing/memory_store.h"

namespace xorbit {

class ReceiverFixture : public testing::Test {
 protected:
  ReceiverFixture() : random_(TestSeed()) {}

  std::unique_ptr<Receiver> Attach(LiveStream& made, WatchingEngine& engine, CohortMember& cohort,
                                   const ReceiverOptions& options, uint64_t version = 0) {
    auto receiver = Receiver::Attach(made.stream(), *backend_, engine.memory(), engine, cohort, options, version);
    EXPECT_TRUE(receiver.ok()) << receiver.status().message();
    return receiver.ok() ? std::move(receiver).value() : nullptr;
  }
  WatchingEngine MakeEngine(const LiveStream& made, uint64_t version = 0) {
    return WatchingEngine(random_, made, std::move(RandomRanks(random_, made.layout(), 1).front()), version);
  }

  Random random_;
  std::unique_ptr<Backend> backend_ = MakeCpuBackend();
  MemoryStore store_;
  std::unique_ptr<CohortMember> alone_ = AloneMember();
};

}  // namespace xorbit
