// A trainer that comes back from its checkpoint goes on with its stream, and with no other; what was saved is there whole or
// not at all, wherever the process dies.
#include "publish/trainer_checkpoint.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "backend/cpu/cpu_backend.h"
#include "base/temporary_folder.h"
#include "base/testing/recording_file_ops.h"
#include "base/testing/seed.h"
#include "publish/decide.h"
#include "publish/fold_publisher.h"
#include "publish/testing/trainer.h"
#include "transport/testing/memory_store.h"

namespace xorbit {
namespace {

using testing::HasSubstr;

class TrainerCheckpointTest : public testing::Test {
 protected:
  TrainerCheckpointTest() { fs::create_directory(checkpoint_); }

  std::vector<RankPublisher> Ranks() {
    std::vector<RankPublisher> ranks;
    for (RankPlan& plan : trainer_.plans()) {
      ranks.push_back(RankPublisher::Make(stream_, *backend_, std::move(plan), trainer_.served(), {}));
    }
    return ranks;
  }
  Result<std::vector<RankPublisher>> Resume(Stream& stream) {
    std::vector<RankPublisher> ranks;
    for (RankPlan& plan : trainer_.plans()) {
      XORBIT_ASSIGN_OR_RETURN(RankPublisher rank,
                              ResumeRank(stream, *backend_, std::move(plan), trainer_.served(), {}, checkpoint_));
      ranks.push_back(std::move(rank));
    }
    return ranks;
  }
  // The trainer's next weights, as `version`.
  VersionRecord Publish(std::vector<RankPublisher>& ranks, uint64_t version, const std::string& id) {
    trainer_.Step(random_, 100);
    const PublicationPlace place{ranks[0].version(), version, id};
    for (RankPublisher& rank : ranks) EXPECT_TRUE(rank.ContributeTensors(place, trainer_.weights()).ok());
    const auto decided = SealAndDecide(stream_, place, {.deadline = std::chrono::milliseconds(0)});
    EXPECT_TRUE(decided.ok()) << decided.status().message();
    for (RankPublisher& rank : ranks) EXPECT_TRUE(rank.Settle(*decided).value());
    EXPECT_EQ(decided->target, trainer_.digest());
    return *decided;
  }
  std::vector<RankPublisher> PublishThree() {
    std::vector<RankPublisher> ranks = Ranks();
    for (uint64_t version = 1; version <= 3; ++version) Publish(ranks, version, "first");
    EXPECT_EQ(PublishFoldFrom(stream_, ranks, 0, {})->to, 3U);
    return ranks;
  }
  Status Save(FileOps& ops, uint64_t version) { return SaveTrainerCheckpoint(ops, stream_, version, checkpoint_); }

  Random random_{TestSeed()};
  TemporaryFolder folder_;
  fs::path checkpoint_ = folder_ / "step_300";
  std::unique_ptr<Backend> backend_ = MakeCpuBackend();
  MemoryStore store_;
  TestTrainer trainer_{random_, 3};
  Stream stream_ = Stream::Create(store_, trainer_.stream("run"), trainer_.layout()).value();
};

TEST_F(TrainerCheckpointTest, ALaterLifeGoesOnWithTheStream) {
  PublishThree();
  ASSERT_TRUE(Save(PosixFileOps(), 3).ok());
  EXPECT_EQ(Save(PosixFileOps(), 3).code(), Code::kExists);
  EXPECT_EQ(ReadTrainerIdentity(checkpoint_)->version, 3U);
  auto resumed = Resume(stream_);
  ASSERT_TRUE(resumed.ok()) << resumed.status().message();
  EXPECT_EQ((*resumed)[0].version(), 3U);
  EXPECT_EQ(Publish(*resumed, 4, "second").parent, 3U);  // sealing proves every rank's baseline
}

TEST_F(TrainerCheckpointTest, TheBaseItselfCanBeSaved) {
  ASSERT_TRUE(Save(PosixFileOps(), 0).ok());
  auto resumed = Resume(stream_);
  ASSERT_TRUE(resumed.ok()) << resumed.status().message();
  EXPECT_EQ(Publish(*resumed, 1, "first").parent, 0U);
}

TEST_F(TrainerCheckpointTest, RefusesOtherStreamsBasesAndVersions) {
  PublishThree();
  ASSERT_TRUE(Save(PosixFileOps(), 3).ok());
  Stream other = Stream::Create(store_, trainer_.stream("other"), trainer_.layout()).value();
  EXPECT_THAT(Resume(other).status().message(), HasSubstr("belongs to stream 'run', not to 'other'"));
  MemoryStore second;
  StreamInfo info = trainer_.stream("run");
  info.base_fingerprint[0] ^= 1;
  Stream moved = Stream::Create(second, info, trainer_.layout()).value();
  EXPECT_THAT(Resume(moved).status().message(), HasSubstr("another base"));
  MemoryStore third;  // the same beginning, but version 3 is not there
  Stream young = Stream::Create(third, trainer_.stream("run"), trainer_.layout()).value();
  EXPECT_THAT(Resume(young).status().message(), HasSubstr("version 3 is not decided"));
  std::vector<RankPublisher> ranks;
  for (RankPlan& plan : trainer_.plans()) {
    ranks.push_back(RankPublisher::Make(young, *backend_, std::move(plan), trainer_.served(), {}));
  }
  for (uint64_t version = 1; version <= 3; ++version) {
    trainer_.Step(random_, 100);
    const PublicationPlace place{version - 1, version, "another"};
    for (RankPublisher& rank : ranks) ASSERT_TRUE(rank.ContributeTensors(place, trainer_.weights()).ok());
    const VersionRecord decided = SealAndDecide(young, place, {}).value();
    for (RankPublisher& rank : ranks) ASSERT_TRUE(rank.Settle(decided).value());
  }
  EXPECT_THAT(Resume(young).status().message(), HasSubstr("the checkpoint's was"));
}

TEST_F(TrainerCheckpointTest, RefusesDamage) {
  PublishThree();
  EXPECT_THAT(Save(PosixFileOps(), 2).message(), HasSubstr("publish the fold first"));
  EXPECT_EQ(Save(PosixFileOps(), 9).code(), Code::kRefused);
  EXPECT_EQ(Resume(stream_).status().code(), Code::kNotFound);
  ASSERT_TRUE(Save(PosixFileOps(), 3).ok());
  std::vector<fs::path> files;
  for (const auto& entry : fs::recursive_directory_iterator(checkpoint_)) {
    if (entry.is_regular_file()) files.push_back(entry.path());
  }
  EXPECT_EQ(files.size(), 6U);  // three owners, layout, manifest, READY.json
  for (const fs::path& path : files) {
    const Buffer whole = ReadWholeFile(path, uint64_t{1} << 30).value();
    const uint64_t at = random_() % whole.size();
    const uint8_t flipped = whole[at] ^ 4;
    const UniqueFd fd = PosixFileOps().OpenForWrite(path).value();
    ASSERT_TRUE(PosixFileOps().Pwrite(fd, ConstBytes(&flipped, 1), at).ok());
    EXPECT_FALSE(Resume(stream_).ok()) << path << " at " << at;
    ASSERT_TRUE(PosixFileOps().Pwrite(fd, ConstBytes(&whole[at], 1), at).ok());
  }
  EXPECT_TRUE(Resume(stream_).ok());
}

TEST_F(TrainerCheckpointTest, IsThereWholeOrNotAtAllWheneverTheProcessDies) {
  PublishThree();
  uint64_t whole_count = 0;
  bool is_through = false;
  for (uint64_t death = 0; !is_through; ++death) {
    checkpoint_ = folder_ / ("step_" + std::to_string(death));
    fs::create_directory(checkpoint_);
    RecordingFileOps ops(checkpoint_);
    ops.FailCalls(death, RecordingFileOps::kNever);
    is_through = Save(ops, 3).ok();
    const auto resumed = Resume(stream_);
    EXPECT_TRUE(resumed.ok() || resumed.status().code() == Code::kNotFound) << death << ": " << resumed.status().message();
    EXPECT_TRUE(resumed.ok() || !is_through);
    whole_count += resumed.ok() ? 1 : 0;
  }
  EXPECT_LE(whole_count, 2U);  // the last step makes its name durable
}

}  // namespace
}  // namespace xorbit
