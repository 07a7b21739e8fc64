// Receivers against streams of random models on random live memory: there and back, alone and in cohorts, whatever fails. The
// engines compare every byte whenever they are made to serve.
#include "receive/receiver.h"

#include <gtest/gtest.h>

#include <thread>

#include "base/parallel.h"
#include "receive/store_cohort.h"
#include "receive/testing/receiver_fixture.h"
#include "tensor/tensor_test_util.h"
#include "transport/testing/forwarding_store.h"

namespace xorbit {
namespace {

using std::chrono::milliseconds;

const ReceiverOptions kForms[] = {{.threads = 2, .localise_budget_bytes = 0},
                                  {.threads = 2, .keep_undo_log = true},
                                  {.threads = 1, .localise_budget_bytes = uint64_t{1} << 30}};

class ReceiverTest : public ReceiverFixture {};

TEST_F(ReceiverTest, GoesToAnyVersionAndBack) {
  for (uint64_t round = 0; round < 12; ++round) {
    const uint64_t seed = TestSeed() + round;
    SCOPED_TRACE("XORBIT_TEST_SEED=" + std::to_string(seed));
    random_.seed(seed);
    MemoryStore store;
    LiveStream made(random_, *backend_, store, 8);
    made.PublishAll();
    if (round % 2 == 0) made.PublishFold(0, 4);
    if (round % 3 == 0) made.PublishFold(4, 8);
    WatchingEngine engine = MakeEngine(made);
    const auto receiver = Attach(made, engine, *alone_, kForms[round % std::size(kForms)]);
    ASSERT_NE(receiver, nullptr);
    EXPECT_TRUE(engine.serves());
    for (int jump = 0; jump < 8; ++jump) {
      const uint64_t target = Between(random_, 0, 8);
      const Status status = receiver->Sync(target);
      ASSERT_TRUE(status.ok()) << status.message();
      EXPECT_EQ(receiver->version(), target);
      EXPECT_EQ(engine.served_version(), target);
      EXPECT_TRUE(engine.Holds(target));
    }
    EXPECT_TRUE(receiver->Verify().ok());
    EXPECT_EQ(engine.wrong_count(), 0);
  }
}

TEST_F(ReceiverTest, IsAsItWasWhateverTheEngineFails) {
  for (uint64_t round = 0; round < 6; ++round) {
    random_.seed(TestSeed() + round);
    SCOPED_TRACE("XORBIT_TEST_SEED=" + std::to_string(TestSeed() + round));
    MemoryStore store;
    LiveStream made(random_, *backend_, store, 2);
    made.PublishAll();
    WatchingEngine engine = MakeEngine(made);
    const auto receiver = Attach(made, engine, *alone_, kForms[round % std::size(kForms)]);
    ASSERT_NE(receiver, nullptr);
    for (const std::string failing : {"pause", "refresh"}) {
      bool has_failed = false;
      engine.on_call = [&](const std::string& call) {
        if (call != failing || has_failed) return Status();
        has_failed = true;
        return IoError("injected");
      };
      const Status status = receiver->Sync(2);
      if (!has_failed) continue;  // nothing derived changes
      EXPECT_NE(status.message().find("injected"), std::string::npos) << status.message();
      EXPECT_EQ(receiver->state(), SyncState::kIdle);
      EXPECT_TRUE(engine.serves());
      EXPECT_EQ(engine.served_version(), 0);
      EXPECT_TRUE(engine.Holds(0));
    }
    engine.on_call = nullptr;
    ASSERT_TRUE(receiver->Sync(2).ok());
    EXPECT_TRUE(engine.Holds(2));
    ASSERT_TRUE(receiver->Sync(0).ok());
    engine.on_call = [](const std::string& call) { return call == "resume" ? IoError("injected") : Status(); };
    EXPECT_FALSE(receiver->Sync(1).ok());
    EXPECT_EQ(receiver->state(), SyncState::kBroken);
    EXPECT_EQ(receiver->Prepare(1).code(), Code::kUsage);
    EXPECT_EQ(engine.wrong_count(), 0);
  }
}

TEST_F(ReceiverTest, TakesALateEngineForAFailure) {
  LiveStream made(random_, *backend_, store_, 1);
  made.PublishAll();
  WatchingEngine engine = MakeEngine(made);
  ReceiverOptions options;
  options.pause_deadline = milliseconds(0);
  const auto receiver = Attach(made, engine, *alone_, options);
  ASSERT_NE(receiver, nullptr);
  engine.on_call = [](const std::string& call) {
    if (call == "pause") std::this_thread::sleep_for(milliseconds(2));
    return Status();
  };
  EXPECT_EQ(receiver->Sync(1).code(), Code::kRefused);
  EXPECT_EQ(engine.served_version(), 0);
  EXPECT_TRUE(engine.Holds(0));
}

TEST_F(ReceiverTest, NoticesForeignWrites) {
  for (const ReceiverOptions& options : kForms) {
    MemoryStore store;
    LiveStream made(random_, *backend_, store, 3);
    made.PublishAll();
    WatchingEngine engine = MakeEngine(made);
    const auto receiver = Attach(made, engine, *alone_, options);
    ASSERT_NE(receiver, nullptr);
    uint8_t* const victim = engine.ChangingByte(0, 3);
    if (victim == nullptr) continue;
    *victim ^= 0xff;
    EXPECT_EQ(receiver->Prepare(3).code(), Code::kRefused);  // the byte belongs to a record of a delta on the way
    EXPECT_EQ(receiver->state(), SyncState::kIdle);
    *victim ^= 0xff;
    const auto again = Attach(made, engine, *alone_, options);
    ASSERT_NE(again, nullptr);
    *victim ^= 0xff;
    EXPECT_EQ(again->Verify().code(), Code::kRefused);
    EXPECT_EQ(again->state(), SyncState::kBroken);
    *victim ^= 0xff;
  }
}

TEST_F(ReceiverTest, RefusesToAttachToOtherWeights) {
  LiveStream made(random_, *backend_, store_, 6);
  made.PublishAll();
  WatchingEngine engine = MakeEngine(made, 6);
  if (made.DigestOf(5) != made.DigestOf(6)) {
    const auto receiver = Receiver::Attach(made.stream(), *backend_, engine.memory(), engine, *alone_, {}, 5);
    EXPECT_EQ(receiver.status().code(), Code::kRefused);
  }
  EXPECT_EQ(Receiver::Attach(made.stream(), *backend_, engine.memory(), engine, *alone_, {}, 7).status().code(),
            Code::kRefused);
  EXPECT_FALSE(engine.serves());
  EXPECT_NE(Attach(made, engine, *alone_, {}, 6), nullptr);
}

TEST_F(ReceiverTest, StaysWithinItsStagingLimit) {
  LiveStream made(random_, *backend_, store_, 4);
  made.PublishAll();
  WatchingEngine engine = MakeEngine(made);
  ReceiverOptions options;
  options.staging_limit_bytes = 100;
  const auto receiver = Attach(made, engine, *alone_, options);
  ASSERT_NE(receiver, nullptr);
  EXPECT_EQ(receiver->Prepare(4).code(), Code::kRefused);
  EXPECT_EQ(receiver->state(), SyncState::kIdle);
}

LiveMapSpec SpecOf(const LiveMap& map) {
  const auto copy = [](const auto& all) { return std::vector(all.begin(), all.end()); };
  LiveMapSpec spec;
  spec.epoch = map.epoch();
  spec.regions = copy(map.regions());
  spec.classes = copy(map.classes());
  spec.pieces = copy(map.pieces());
  spec.shadows = copy(map.shadows());
  spec.derived = copy(map.derived());
  return spec;
}

TEST_F(ReceiverTest, FollowsAnEngineThatMovedItsWeights) {
  LiveStream made(random_, *backend_, store_, 3);
  made.PublishAll();
  WatchingEngine engine = MakeEngine(made);
  const auto receiver = Attach(made, engine, *alone_, {});
  ASSERT_NE(receiver, nullptr);
  const auto move = [&] {
    LiveMapSpec spec = SpecOf(engine.map());
    ++spec.epoch;
    engine.map() = LiveMap::Make(made.layout(), std::move(spec)).value();
  };
  ASSERT_TRUE(receiver->Prepare(1).ok());
  move();
  const Status applied = receiver->Apply();
  ASSERT_TRUE(applied.ok()) << applied.message();
  EXPECT_TRUE(engine.Holds(1));
  ASSERT_TRUE(receiver->Prepare(2).ok());
  engine.on_call = [&](const std::string& call) {
    if (call == "pause") move();
    return Status();
  };
  EXPECT_EQ(receiver->Apply().code(), Code::kRefused);  // too late to look for new places
  EXPECT_EQ(receiver->state(), SyncState::kIdle);
  EXPECT_TRUE(engine.Holds(1));
  engine.on_call = nullptr;
  ASSERT_TRUE(receiver->Sync(3).ok());
  EXPECT_TRUE(engine.Holds(3));
  EXPECT_EQ(engine.wrong_count(), 0);
}

// The digest of the whole state cannot be known: every record on the way is what proves a chain.
TEST_F(ReceiverTest, FollowsWithoutAllGroups) {
  const Layout layout = MakeLayout({Tensor("draft.weight", Dtype::kBF16, {40, 30}, 1), Tensor("policy.norm", Dtype::kF32, {90}),
                                    Tensor("policy.weight", Dtype::kBF16, {70, 50})},
                                   {"policy", "draft"});
  for (uint64_t round = 0; round < 3; ++round) {
    random_.seed(TestSeed() + round);
    SCOPED_TRACE("XORBIT_TEST_SEED=" + std::to_string(TestSeed() + round));
    MemoryStore store;
    LiveStream made(random_, *backend_, store, 3, layout);
    made.PublishAll();
    LiveMapSpec spec = SpecOf(RandomRanks(random_, layout, 1).front());
    const auto is_absent = [&](uint32_t tensor_index) { return layout.tensors()[tensor_index].group == 1; };
    spec.absent_groups = {1};
    std::erase_if(spec.pieces, [&](const Piece& piece) { return is_absent(piece.tensor_index); });
    std::erase_if(spec.shadows, [&](const ShadowBinding& shadow) { return is_absent(shadow.piece.tensor_index); });
    std::erase_if(spec.derived, [&](const DerivedBinding& derived) { return is_absent(derived.tensor_index); });
    WatchingEngine engine(random_, made, LiveMap::Make(layout, std::move(spec)).value(), 0);
    const auto receiver = Attach(made, engine, *alone_, {});
    ASSERT_NE(receiver, nullptr);
    ASSERT_TRUE(receiver->Prepare(3).ok());
    EXPECT_EQ(receiver->report().to, 3);
    receiver->Abort();
    const Status status = receiver->Sync(3);
    ASSERT_TRUE(status.ok()) << status.message();
    EXPECT_TRUE(engine.Holds(3));
    EXPECT_TRUE(receiver->Verify().ok());
    ASSERT_TRUE(receiver->Sync(0).ok());
    EXPECT_EQ(engine.wrong_count(), 0);
  }
}

// A collector takes the fold away between planning and fetching.
class VanishingStore final : public ForwardingStore {
 public:
  explicit VanishingStore(ObjectStore& store) : ForwardingStore(store), base_(store) {}
  Result<ObjectInfo> Stat(std::string_view key) override {
    if (is_armed && key.find("/fold/owner") != std::string_view::npos) {
      is_armed = false;
      ++vanished_count;
      const std::string folder(key.substr(0, key.rfind('/') + 1));
      const std::vector<ObjectInfo> objects = base_.List(folder).value();
      for (const ObjectInfo& object : objects) EXPECT_TRUE(base_.Remove(object.key).ok());
    }
    return ForwardingStore::Stat(key);
  }
  bool is_armed = false;
  int vanished_count = 0;

 private:
  ObjectStore& base_;
};

TEST_F(ReceiverTest, PlansAgainWhatIsGone) {
  VanishingStore store(store_);
  LiveStream made(random_, *backend_, store, 4);
  made.PublishAll();
  made.PublishFold(0, 4);
  WatchingEngine engine = MakeEngine(made);
  const auto receiver = Attach(made, engine, *alone_, {});
  ASSERT_NE(receiver, nullptr);
  const auto route = made.stream().Route(0, 4);
  ASSERT_TRUE(route.ok());
  store.is_armed = true;
  const Status status = receiver->Sync(4);
  ASSERT_TRUE(status.ok()) << status.message();
  EXPECT_TRUE(engine.Holds(4));
  EXPECT_EQ(store.vanished_count, route->size() == 1 ? 1 : 0);
}

// Ranks in threads. One of them fails at random in its engine; either all go or none.
TEST_F(ReceiverTest, CohortsGoTogether) {
  uint64_t refused = 0;
  for (uint64_t round = 0; round < 6; ++round) {
    random_.seed(TestSeed() + round);
    SCOPED_TRACE("XORBIT_TEST_SEED=" + std::to_string(TestSeed() + round));
    MemoryStore store;
    LiveStream made(random_, *backend_, store, 5);
    made.PublishAll();
    const size_t rank_count = Between(random_, 2, 3);
    std::vector<LiveMap> maps = RandomRanks(random_, made.layout(), rank_count);
    std::vector<std::unique_ptr<WatchingEngine>> engines;
    std::vector<std::unique_ptr<CohortMember>> members;
    std::vector<std::unique_ptr<Receiver>> receivers;
    for (uint32_t rank = 0; rank < rank_count; ++rank) {
      engines.push_back(std::make_unique<WatchingEngine>(random_, made, std::move(maps[rank]), 0));
      CohortOptions options;
      options.rank = rank;
      options.rank_count = static_cast<uint32_t>(rank_count);
      members.push_back(MakeStoreCohort(store, options).value());
      receivers.push_back(Attach(made, *engines[rank], *members[rank], kForms[round % std::size(kForms)]));
      ASSERT_NE(receivers.back(), nullptr);
    }
    for (int step = 0; step < 8; ++step) {
      const uint64_t target = Between(random_, 0, 5);
      const uint64_t failing = Between(random_, 0, 2 * rank_count);
      const uint64_t from = receivers[0]->version();
      if (target == from) continue;
      std::vector<Status> done(rank_count);
      const Status ran = ParallelFor(static_cast<int>(rank_count), rank_count, [&](uint64_t rank) {
        engines[rank]->on_call = [&, rank](const std::string& call) {
          return rank == failing && call == "pause" ? IoError("injected") : Status();
        };
        done[rank] = receivers[rank]->Sync(target);
        return Status();
      });
      ASSERT_TRUE(ran.ok());
      for (const auto& engine : engines) engine->on_call = nullptr;  // it looks at this step's variables
      for (size_t rank = 0; rank < rank_count; ++rank) {
        EXPECT_EQ(done[rank].ok(), failing >= rank_count) << done[rank].message();
        const uint64_t expected = failing < rank_count ? from : target;
        EXPECT_EQ(engines[rank]->served_version(), expected);
        EXPECT_TRUE(engines[rank]->Holds(expected));
        EXPECT_EQ(engines[rank]->wrong_count(), 0);
      }
      refused += failing < rank_count ? 1 : 0;
    }
    // One rank loses its memory, and comes back with the checkpoint.
    const auto lost = static_cast<uint32_t>(Between(random_, 0, rank_count - 1));
    CohortOptions options;
    options.rank = lost;
    options.rank_count = static_cast<uint32_t>(rank_count);
    engines[lost]->Reload(made.state(0));
    members[lost] = MakeStoreCohort(store, options).value();
    receivers[lost] = Attach(made, *engines[lost], *members[lost], {});
    ASSERT_NE(receivers[lost], nullptr);
    for (const auto& engine : engines) EXPECT_EQ(engine->served_version(), engines[0]->served_version());
  }
  EXPECT_GT(refused, 0);
}

}  // namespace
}  // namespace xorbit
