// The whole way, publisher -> store -> receiver, of random models: ranks with random shards and copies of each other's publish
// random chains of versions, with folds, numbers given up, and trainers that come back to an older version with other shards;
// receivers with random live maps, alone and in cohorts, go from any version to any other. Every rank's digests must add up to
// the oracle's, and every byte of live memory, and between its regions, must be what the version's publisher computed.
//
// Round i has the seed XORBIT_TEST_SEED + i, which a failure names: XORBIT_TEST_SEED=<that> XORBIT_TEST_ROUNDS=1 runs it again,
// XORBIT_TEST_ROUNDS=N more of them.
#include <gtest/gtest.h>

#include <array>

#include "backend/cpu/cpu_backend.h"
#include "base/parallel.h"
#include "base/temporary_folder.h"
#include "base/testing/seed.h"
#include "publish/decide.h"
#include "publish/fold_publisher.h"
#include "publish/rank_publisher.h"
#include "publish/testing/trainer.h"
#include "receive/receiver.h"
#include "receive/store_cohort.h"
#include "receive/testing/live_stream.h"
#include "store/fetch.h"
#include "transport/folder_store.h"
#include "transport/testing/memory_store.h"

namespace xorbit {
namespace {

constexpr std::array kCodecs = {CodecId::kSparse, CodecId::kSparse, CodecId::kLz4, CodecId::kSnappyZstd};

class Round {
 public:
  explicit Round(uint64_t seed) : random_(seed) {
    if (random_() % 20 == 0) {
      store_ = OpenFolderStore(PosixFileOps(), folder_.path()).value();
    } else {
      store_ = std::make_unique<MemoryStore>();
    }
    stream_.emplace(Stream::Create(*store_, trainer_.stream("run"), trainer_.layout()).value());
    options_.codec = kCodecs[random_() % kCodecs.size()];
    options_.encode.threads = static_cast<int>(Between(random_, 1, 3));
    states_.push_back(trainer_.state());
    StartTrainer(0);
  }

  void Run() {
    for (uint64_t count = Between(random_, 2, 8); count > 0; --count) {
      ASSERT_NO_FATAL_FAILURE(PublishNext());
    }
    ASSERT_NO_FATAL_FAILURE(FollowAlone());
    if (random_() % 3 == 0) {
      ASSERT_NO_FATAL_FAILURE(FollowTogether());
    }
  }

 private:
  uint64_t AnyVersion() { return committed_[random_() % committed_.size()]; }

  // Ranks that know the served checkpoint and the store alone.
  void StartTrainer(uint64_t version) {
    trainer_.Reshard(random_, static_cast<uint32_t>(Between(random_, 1, 5)));
    trainer_.SetWeights(states_[version]);
    ranks_.clear();
    const auto way = FetchWay(*stream_, 0, version, {});
    ASSERT_TRUE(way.ok()) << way.status().message();
    for (RankPlan& plan : trainer_.plans()) {
      ranks_.push_back(RankPublisher::Make(*stream_, *backend_, std::move(plan), trainer_.served(), options_));
      if (version == 0) continue;
      ASSERT_TRUE(ranks_.back().CatchUp(version, way->deltas).ok());
    }
  }

  void ChangeWeights() {
    if (random_() % 6 == 0) {
      trainer_.SetWeights(states_[AnyVersion()]);  // what changed meanwhile changes back
    } else {
      constexpr uint64_t kPerMille[] = {0, 2, 20, 150, 900};
      trainer_.Step(random_, kPerMille[Between(random_, 0, 4)]);
    }
  }

  void PublishNext() {
    if (random_() % 8 == 0) {
      ASSERT_TRUE(stream_->Decide(AbortRecord(states_.size())).ok());
      states_.push_back(states_.back());  // nobody gets to see it
    }
    if (random_() % 5 == 0) {
      ASSERT_NO_FATAL_FAILURE(StartTrainer(AnyVersion()));
    }
    ChangeWeights();
    const PublicationPlace place = {ranks_.front().version(), states_.size(), "t"};
    for (uint32_t rank = 0; rank < ranks_.size(); ++rank) {
      const std::vector<Buffer> held = trainer_.Held(rank);
      const Status status = ranks_[rank].Contribute(place, ViewsOf(held));
      ASSERT_TRUE(status.ok()) << status.message();
    }
    const auto decided = SealAndDecide(*stream_, place, {.deadline = std::chrono::milliseconds(0)});
    ASSERT_TRUE(decided.ok()) << decided.status().message();
    ASSERT_EQ(decided->target, trainer_.digest());
    for (RankPublisher& rank : ranks_) ASSERT_TRUE(rank.Settle(*decided).value());
    states_.push_back(trainer_.state());
    committed_.push_back(place.target_version);
    if (random_() % 2 == 0) {
      const uint64_t marks[] = {0, AnyVersion()};
      const auto folds = PublishFolds(*stream_, ranks_, marks, {});
      ASSERT_TRUE(folds.ok()) << folds.status().message();
    }
  }

  ReceiverOptions RandomOptions() {
    ReceiverOptions options;
    options.threads = static_cast<int>(Between(random_, 1, 2));
    options.keep_undo_log = random_() % 3 == 0;
    options.localise_budget_bytes = random_() % 3 == 0 ? uint64_t{1} << 30 : 0;
    return options;
  }

  void FollowAlone() {
    const std::unique_ptr<CohortMember> alone = AloneMember();
    const uint64_t start = AnyVersion();
    WatchingEngine engine(random_, trainer_.layout(), states_, std::move(RandomRanks(random_, trainer_.layout(), 1).front()),
                          start);
    const auto receiver = Receiver::Attach(*stream_, *backend_, engine.memory(), engine, *alone, RandomOptions(), start);
    ASSERT_TRUE(receiver.ok()) << receiver.status().message();
    for (int jump = 0; jump < 5; ++jump) {
      const uint64_t target = AnyVersion();
      const uint64_t from = (*receiver)->version();
      const Status status = (*receiver)->Sync(target);
      ASSERT_TRUE(status.ok()) << from << " -> " << target << ": " << status.message();
      ASSERT_TRUE(engine.Holds(target)) << from << " -> " << target;
    }
    EXPECT_TRUE((*receiver)->Verify().ok());
    EXPECT_EQ(engine.wrong_count(), 0U);
  }

  // Two or three ranks in threads.
  void FollowTogether() {
    const auto rank_count = static_cast<uint32_t>(Between(random_, 2, 3));
    std::vector<LiveMap> maps = RandomRanks(random_, trainer_.layout(), rank_count);
    MemoryStore meeting_place;
    std::vector<std::unique_ptr<WatchingEngine>> engines;
    std::vector<std::unique_ptr<CohortMember>> members;
    std::vector<std::unique_ptr<Receiver>> receivers;
    for (uint32_t rank = 0; rank < rank_count; ++rank) {
      engines.push_back(std::make_unique<WatchingEngine>(random_, trainer_.layout(), states_, std::move(maps[rank]), 0));
      CohortOptions options;
      options.rank = rank;
      options.rank_count = rank_count;
      members.push_back(MakeStoreCohort(meeting_place, options).value());
      auto receiver =
          Receiver::Attach(*stream_, *backend_, engines[rank]->memory(), *engines[rank], *members[rank], RandomOptions(), 0);
      ASSERT_TRUE(receiver.ok()) << receiver.status().message();
      receivers.push_back(std::move(receiver).value());
    }
    for (int jump = 0; jump < 3; ++jump) {
      const uint64_t target = AnyVersion();
      const Status status =
          ParallelFor(static_cast<int>(rank_count), rank_count, [&](uint64_t rank) { return receivers[rank]->Sync(target); });
      ASSERT_TRUE(status.ok()) << "-> " << target << ": " << status.message();
      for (const auto& engine : engines) ASSERT_TRUE(engine->Holds(target)) << "-> " << target;
    }
    for (const auto& engine : engines) EXPECT_EQ(engine->wrong_count(), 0U);
  }

  Random random_;
  TemporaryFolder folder_;
  std::unique_ptr<Backend> backend_ = MakeCpuBackend();
  std::unique_ptr<ObjectStore> store_;
  TestTrainer trainer_{random_, 1, 8, 1'500};
  std::optional<Stream> stream_;
  PublishOptions options_;
  std::vector<RankPublisher> ranks_;
  std::vector<RandomTensors> states_;      // by version
  std::vector<uint64_t> committed_ = {0};  // versions
};

TEST(StreamProperty, ReceiversHoldWhatPublishersComputed) {
  const uint64_t round_count = TestRounds(200);
  for (uint64_t round = 0; round < round_count && !testing::Test::HasFailure(); ++round) {
    const uint64_t seed = TestSeed() + round;
    SCOPED_TRACE("XORBIT_TEST_SEED=" + std::to_string(seed) + " XORBIT_TEST_ROUNDS=1");
    Round(seed).Run();
  }
}

}  // namespace
}  // namespace xorbit
