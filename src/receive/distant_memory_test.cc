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

// The device fails under an update that has begun.
class LostUpdate final : public PreparedUpdate {
 public:
  explicit LostUpdate(std::unique_ptr<PreparedUpdate> prepared) : prepared_(std::move(prepared)) {}
  const PrepareReport& report() const override { return prepared_->report(); }
  Status Apply() override { return IoError("the device has failed, reload the weights"); }
  Status Undo() override { return Apply(); }
  bool is_lost() const override { return true; }

 private:
  std::unique_ptr<PreparedUpdate> prepared_;
};

class FailingBackend final : public ForwardingBackend {
 public:
  using ForwardingBackend::ForwardingBackend;
  Result<std::unique_ptr<PreparedUpdate>> Prepare(const Layout& layout, std::span<const PayloadView> payloads,
                                                  const LiveMemory& live, const PrepareOptions& options) const override {
    XORBIT_ASSIGN_OR_RETURN(auto prepared, ForwardingBackend::Prepare(layout, payloads, live, options));
    return std::unique_ptr<PreparedUpdate>(std::make_unique<LostUpdate>(std::move(prepared)));
  }
};

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

TEST(DistantMemory, ServesNothingWhereTheDeviceHasFailed) {
  SCOPED_TRACE("XORBIT_TEST_SEED=" + std::to_string(TestSeed()));
  Random random(TestSeed());
  const std::unique_ptr<Backend> backend = MakeCpuBackend();
  const FailingBackend failing(*backend);
  MemoryStore store;
  LiveStream made(random, *backend, store, 2);
  made.PublishAll();
  WatchingEngine engine(random, made, std::move(RandomRanks(random, made.layout(), 1).front()), 0);
  const std::unique_ptr<CohortMember> alone = AloneMember();
  const auto receiver = Receiver::Attach(made.stream(), failing, engine.memory(), engine, *alone, {}, 0);
  ASSERT_TRUE(receiver.ok()) << receiver.status().message();
  EXPECT_TRUE(engine.serves());
  const Status status = (*receiver)->Sync(1);
  EXPECT_EQ(status.code(), Code::kIo);
  EXPECT_EQ((*receiver)->state(), SyncState::kBroken);
  EXPECT_FALSE(engine.serves());
  EXPECT_EQ((*receiver)->Prepare(1).code(), Code::kUsage);
}

}  // namespace
}  // namespace xorbit
