// Ranks that know each other only through the store must publish, between them, exactly what the trainer's weights became; and
// nothing but a decision for their own publication may move what they compare with.
#include "publish/rank_publisher.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <thread>

#include "backend/cpu/cpu_backend.h"
#include "base/temporary_folder.h"
#include "base/testing/seed.h"
#include "publish/decide.h"
#include "publish/fold_publisher.h"
#include "publish/testing/trainer.h"
#include "store/fetch.h"
#include "store/testing/put_back.h"
#include "transport/folder_store.h"

namespace xorbit {
namespace {

using testing::HasSubstr;

class RankPublisherTest : public testing::Test {
 protected:
  RankPublisherTest() : store_(OpenFolderStore(PosixFileOps(), folder_.path()).value()) {
    SCOPED_TRACE("seed " + std::to_string(seed_));
  }

  Stream Begin(const TestTrainer& trainer, const std::string& id) {
    return Stream::Create(*store_, trainer.stream(id), trainer.layout()).value();
  }

  std::vector<RankPublisher> Ranks(Stream& stream, const TestTrainer& trainer) {
    std::vector<RankPublisher> ranks;
    for (RankPlan& plan : trainer.plans()) {
      ranks.push_back(RankPublisher::Make(stream, *backend_, std::move(plan), trainer.served(), {}));
    }
    return ranks;
  }

  // All ranks contribute; the first one decides.
  Result<VersionRecord> Publish(Stream& stream, std::vector<RankPublisher>& ranks, const TestTrainer& trainer,
                                const PublicationPlace& place) {
    for (uint32_t rank = 0; rank < ranks.size(); ++rank) {
      const std::vector<Buffer> held = trainer.Held(rank);
      XORBIT_RETURN_IF_ERROR(ranks[rank].Contribute(place, ViewsOf(held)));
    }
    return SealAndDecide(stream, place, {.deadline = std::chrono::milliseconds(0)});
  }

  // What a rank's digest must be once it has published the trainer's weights.
  StateDigest ScanOwned(const TestTrainer& trainer, const RankPlan& plan) {
    StateDigest digest;
    for (const SegmentMap& map : plan.owned) {
      const SegmentBytes bytes = SegmentBytes::InTensors(map, trainer.weights());
      for (const StateDigest& part : backend_->DigestParts(trainer.layout(), map, bytes, 1)) digest += part;
    }
    return digest;
  }

  // What a reader makes of a version: the delta from its parent, applied to `tensors`.
  void Follow(Stream& stream, uint64_t version, RandomTensors* tensors) {
    const Delta delta = FetchDelta(stream, stream.StepEdge(version).value(), {}).value();
    const std::vector<MutableBytes> bytes = tensors->mutable_bytes();
    for (const PayloadView& payload : delta.payloads) {
      for (const PayloadSegment& segment : payload.segments) {
        const auto decoder = backend_->Open(payload, segment).value();
        DecodedRecord record;
        for (uint64_t i = 0; i < decoder->record_count(); ++i) {
          ASSERT_TRUE(decoder->Decode(i, &record).ok());
          for (uint64_t c = 0; c < record.count; ++c) {
            const xorbit::Run run = RunAt(segment.map, decoder->info(i).first + record.offsets[c]);
            for (uint64_t b = 0; b < segment.map.unit_bytes(); ++b) {
              bytes[run.tensor_index][run.tensor_element * segment.map.unit_bytes() + b] ^=
                  record.xors[c * segment.map.unit_bytes() + b];
            }
          }
        }
      }
    }
  }

  const uint64_t seed_ = TestSeed();
  Random random_{seed_};
  TemporaryFolder folder_;
  std::unique_ptr<Backend> backend_ = MakeCpuBackend();
  std::unique_ptr<ObjectStore> store_;
};

TEST_F(RankPublisherTest, VersionsAreWhatTheWeightsBecame) {
  for (int round = 0; round < 5; ++round) {
    TestTrainer trainer(random_, static_cast<uint32_t>(Between(random_, 1, 5)));
    Stream stream = Begin(trainer, "run" + std::to_string(round));
    std::vector<RankPublisher> ranks = Ranks(stream, trainer);
    RandomTensors follower(random_, trainer.layout());
    follower.CopyBytes(trainer.served());
    for (uint64_t version = 1; version <= 4; ++version) {
      trainer.Step(random_, version == 3 ? 0 : Between(random_, 1, 200));  // the third update changes nothing
      const auto decided = Publish(stream, ranks, trainer, {version - 1, version, "try"});
      ASSERT_TRUE(decided.ok()) << decided.status().message();
      ASSERT_TRUE(decided->committed());
      EXPECT_EQ(decided->target, trainer.digest());
      for (RankPublisher& rank : ranks) {
        ASSERT_TRUE(rank.Settle(*decided).value());
        EXPECT_EQ(rank.digest(), ScanOwned(trainer, rank.plan())) << "rank " << rank.plan().owner_index;
      }
      Follow(stream, version, &follower);
      for (size_t i = 0; i < trainer.weights().size(); ++i) {
        ASSERT_TRUE(std::ranges::equal(follower.bytes()[i], trainer.weights()[i])) << "tensor " << i;
      }
    }
    EXPECT_EQ(stream.Newest().value(), 4U);
  }
}

TEST_F(RankPublisherTest, FoldsAreWhatADirectDeltaWouldHaveBeen) {
  TestTrainer trainer(random_, 3);
  Stream stream = Begin(trainer, "run");
  std::vector<RankPublisher> ranks = Ranks(stream, trainer);
  std::vector<RandomTensors> states;
  states.emplace_back(random_, trainer.layout()).CopyBytes(trainer.served());
  const std::vector<uint64_t> marks = {0};
  for (uint64_t version = 1; version <= 6; ++version) {
    trainer.Step(random_, 150);
    states.emplace_back(random_, trainer.layout()).CopyBytes(trainer.weights());
    const VersionRecord decided = Publish(stream, ranks, trainer, {version - 1, version, "try"}).value();
    std::vector<std::thread> threads;  // ranks wait for each other in the store
    for (RankPublisher& rank : ranks) {
      ASSERT_TRUE(rank.Settle(decided).value());
      threads.emplace_back([&] { EXPECT_TRUE(PublishFolds(stream, {&rank, 1}, marks, {}).ok()); });
    }
    for (std::thread& thread : threads) thread.join();
  }
  size_t fold_count = 0;
  const std::vector<Edge> edges = stream.Edges(0, 6).value();
  for (const Edge& edge : edges) {
    if (edge.publication_id != kFoldPublicationId) continue;
    ++fold_count;
    const Delta fold = FetchDelta(stream, edge, {}).value();
    const std::vector<RankPlan> plans = trainer.plans();
    for (size_t rank = 0; rank < plans.size(); ++rank) {
      const auto encoded = backend_->EncodeDiff(trainer.layout(), plans[rank].owned,
                                                {.bytes = InTensors(plans[rank].owned, states[edge.from].bytes())},
                                                InTensors(plans[rank].owned, states[edge.to].bytes()), CodecId::kSparse, {});
      const Payload direct =
          WritePayload(trainer.layout(), fold.payloads[rank].info, plans[rank].owned, std::move(encoded).value().segments, 1)
              .value();
      EXPECT_EQ(direct.sha256, fold.manifest.owners[rank].sha256) << edge.from << " -> " << edge.to;
    }
  }
  EXPECT_GE(fold_count, 2U);
}

TEST_F(RankPublisherTest, ANewTrainerCatchesUpAndGoesOn) {
  TestTrainer trainer(random_, 2);
  Stream stream = Begin(trainer, "run");
  std::vector<RankPublisher> ranks = Ranks(stream, trainer);
  for (uint64_t version = 1; version <= 3; ++version) {
    trainer.Step(random_, 100);
    const VersionRecord decided = Publish(stream, ranks, trainer, {version - 1, version, "old"}).value();
    for (RankPublisher& rank : ranks) ASSERT_TRUE(rank.Settle(decided).value());
  }
  // Other ranks, from the served checkpoint and the store alone.
  std::vector<RankPublisher> resumed = Ranks(stream, trainer);
  const std::vector<Delta> chain = FetchRoute(stream, stream.Route(0, 3).value(), {}).value();
  for (RankPublisher& rank : resumed) ASSERT_TRUE(rank.CatchUp(3, chain).ok());
  trainer.Step(random_, 100);
  const auto decided = Publish(stream, resumed, trainer, {3, 4, "new"});
  ASSERT_TRUE(decided.ok()) << decided.status().message();  // sealing proves the parent's digest
  EXPECT_EQ(decided->target, trainer.digest());
}

TEST_F(RankPublisherTest, ALostPublicationLeavesTheBaselineWhereItWas) {
  TestTrainer trainer(random_, 3);
  Stream stream = Begin(trainer, "run");
  std::vector<RankPublisher> ranks = Ranks(stream, trainer);
  trainer.Step(random_, 100);
  for (uint32_t rank = 0; rank < 3; ++rank) {
    const std::vector<Buffer> held = trainer.Held(rank);
    ASSERT_TRUE(ranks[rank].Contribute({0, 1, "late"}, ViewsOf(held)).ok());
  }
  // Somebody gave version 1 up before the ranks could seal it.
  ASSERT_TRUE(stream.Decide(AbortRecord(1)).ok());
  const VersionRecord decided = SealAndDecide(stream, {0, 1, "late"}, {}).value();
  EXPECT_FALSE(decided.committed());
  for (RankPublisher& rank : ranks) {
    EXPECT_FALSE(rank.Settle(decided).value());
    EXPECT_EQ(rank.version(), 0U);
  }
  // The next free number takes the same weights, from the same base.
  const VersionRecord again = Publish(stream, ranks, trainer, {0, 2, "again"}).value();
  ASSERT_TRUE(again.committed());
  for (RankPublisher& rank : ranks) EXPECT_TRUE(rank.Settle(again).value());
  EXPECT_EQ(again.target, trainer.digest());
}

TEST_F(RankPublisherTest, ATrainerDoesNotPublishOntoAStreamThatWasRewritten) {
  TestTrainer trainer(random_, 2);
  Stream stream = Begin(trainer, "run");
  std::vector<RankPublisher> ranks = Ranks(stream, trainer);
  std::vector<RankPublisher> former = Ranks(stream, trainer);  // of the copy that the store is put back to
  for (uint64_t version = 1; version <= 2; ++version) {
    trainer.Step(random_, 100);
    const VersionRecord decided = Publish(stream, ranks, trainer, {version - 1, version, "t"}).value();
    for (RankPublisher& rank : ranks) ASSERT_TRUE(rank.Settle(decided).value());
  }
  PutBack(*store_, "run", 0);
  trainer.Step(random_, 100);
  EXPECT_THAT(Publish(stream, ranks, trainer, {2, 3, "t"}).status().message(), HasSubstr("has gone back behind version 2"));
  Stream other = Stream::Open(*store_, "run").value();
  for (uint64_t version = 1; version <= 2; ++version) {
    trainer.Step(random_, 100);
    const VersionRecord decided = Publish(other, former, trainer, {version - 1, version, "u"}).value();
    for (RankPublisher& rank : former) ASSERT_TRUE(rank.Settle(decided).value());
  }
  const Status refused = Publish(stream, ranks, trainer, {2, 3, "t"}).status();
  EXPECT_EQ(refused.code(), Code::kRefused);
  EXPECT_THAT(refused.message(), HasSubstr("was rewritten: its version 2 is another state"));
  EXPECT_EQ(other.NextFree().value(), 3);
  EXPECT_TRUE(Publish(other, former, trainer, {2, 3, "u"}).ok());
}

TEST_F(RankPublisherTest, MissingRanksAreNamedAtTheDeadline) {
  TestTrainer trainer(random_, 3);
  Stream stream = Begin(trainer, "run");
  std::vector<RankPublisher> ranks = Ranks(stream, trainer);
  const std::vector<Buffer> held = trainer.Held(0);
  ASSERT_TRUE(ranks[0].Contribute({0, 1, "try"}, ViewsOf(held)).ok());
  const auto late = SealAndDecide(stream, {0, 1, "try"}, {.deadline = std::chrono::milliseconds(5)});
  EXPECT_EQ(late.status().code(), Code::kRefused);
  EXPECT_THAT(late.status().message(), HasSubstr("could not be sealed in time"));
  EXPECT_EQ(stream.Record(1).value(), std::nullopt);
  const auto aborted =
      SealAndDecide(stream, {0, 1, "try"}, {.deadline = std::chrono::milliseconds(5), .abort_at_deadline = true});
  EXPECT_FALSE(aborted.value().committed());
}

TEST_F(RankPublisherTest, WrongMemoryAndWrongBasesAreUsageErrors) {
  TestTrainer trainer(random_, 1);
  Stream stream = Begin(trainer, "run");
  std::vector<RankPublisher> ranks = Ranks(stream, trainer);
  const std::vector<Buffer> held = trainer.Held(0);
  EXPECT_EQ(ranks[0].Contribute({0, 1, "try"}, {}).code(), Code::kUsage);
  EXPECT_THAT(ranks[0].Contribute({1, 2, "try"}, ViewsOf(held)).message(), HasSubstr("stands at version 0"));
  EXPECT_EQ(ranks[0].Settle(AbortRecord(1)).status().code(), Code::kUsage);
}

}  // namespace
}  // namespace xorbit
