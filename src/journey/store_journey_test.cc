// Checkpoints through a store and back: every version must come out byte for byte, from any other, from nothing, and after an
// interruption; and what is no version of the stream must be left alone.
#include "journey/store_journey.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "backend/cpu/cpu_backend.h"
#include "base/temporary_folder.h"
#include "base/testing/forwarding_file_ops.h"
#include "base/testing/seed.h"
#include "tensor/checkpoint_writer.h"
#include "tensor/random_model.h"
#include "transport/folder_store.h"

namespace xorbit {
namespace {

using testing::HasSubstr;

class StoreJourneyTest : public testing::Test {
 protected:
  static constexpr uint64_t kVersions = 5;

  StoreJourneyTest()
      : store_(OpenFolderStore(PosixFileOps(), folder_ / "store").value()),
        layout_(RandomLayout(random_, 6, 2'000)),
        weights_(random_, layout_) {
    runtime_ = {.backend = backend_.get(), .file_ops = &PosixFileOps(), .threads = 2};
    for (uint64_t version = 0; version <= kVersions; ++version) {
      const fs::path state = State(version);
      EXPECT_TRUE(WriteShardedCheckpoint(PosixFileOps(), state, layout_, FillFrom(weights_.bytes()), 4'000).ok());
      EXPECT_TRUE(WriteWholeFile(PosixFileOps(), state / "config.json", AsBytes("{}")).ok());
      weights_.Mutate(random_, layout_, 60);
    }
  }

  fs::path State(uint64_t version) const { return folder_ / ("state-" + std::to_string(version)); }

  PublishedCheckpoint Publish(uint64_t version, std::optional<fs::path> base = std::nullopt) {
    PublishRequest request;
    request.checkpoint = State(version);
    request.base = std::move(base);
    request.delta.owner_count = static_cast<uint32_t>(1 + version % 3);
    request.delta.split = Split::kRange;
    const auto published = PublishCheckpoint(runtime_, *store_, request);
    EXPECT_TRUE(published.ok()) << published.status().message();
    return *published;
  }

  void PublishAll() {
    for (uint64_t version = 0; version <= kVersions; ++version) {
      // Against the newest anchor, or a version on disk, old or new.
      std::optional<fs::path> base;
      if (version % 2 == 1) base = State(version - 1);
      if (version == 4) base = State(1);
      EXPECT_EQ(Publish(version, version == 0 ? std::nullopt : base).version, version);
    }
  }

  // Flips a byte in every object whose path holds `part`; how many.
  size_t Damage(std::string_view part) {
    size_t count = 0;
    for (const auto& entry : fs::recursive_directory_iterator(folder_ / "store")) {
      if (!entry.is_regular_file() || entry.path().string().find(part) == std::string::npos) continue;
      const UniqueFd file = PosixFileOps().OpenForWrite(entry.path()).value();
      const uint64_t middle = fs::file_size(entry.path()) / 2;
      uint8_t byte[1];
      EXPECT_TRUE(ReadAt(file, byte, middle).ok());
      byte[0] ^= 0xa5;
      EXPECT_TRUE(PosixFileOps().Pwrite(file, byte, middle).ok());
      ++count;
    }
    return count;
  }

  // Both hold the same weights, in files of the same names.
  void ExpectEqual(const fs::path& checkpoint, uint64_t version) {
    const Checkpoint got = Checkpoint::Open(checkpoint).value();
    const Checkpoint wanted = Checkpoint::Open(State(version)).value();
    ASSERT_EQ(got.files().size(), wanted.files().size());
    for (size_t i = 0; i < got.files().size(); ++i) {
      EXPECT_TRUE(std::ranges::equal(got.files()[i].map.bytes(), wanted.files()[i].map.bytes())) << version;
    }
  }

  Random random_{TestSeed()};
  TemporaryFolder folder_;
  std::unique_ptr<Backend> backend_ = MakeCpuBackend();
  Runtime runtime_;
  std::unique_ptr<ObjectStore> store_;
  Layout layout_;
  RandomTensors weights_;
};

TEST_F(StoreJourneyTest, EveryVersionCanBePulledFromAnyOther) {
  PublishAll();
  const fs::path sampler = folder_ / "sampler";
  const auto first = PullCheckpoint(runtime_, *store_, "", sampler, 2);
  ASSERT_TRUE(first.ok()) << first.status().message();
  EXPECT_EQ(first->from, std::nullopt);
  ExpectEqual(sampler, 2);
  EXPECT_TRUE(fs::exists(sampler / "config.json"));
  uint64_t at = 2;
  for (const uint64_t version : {5U, 0U, 1U, 4U, 4U, 3U, 0U, 5U, 2U}) {
    const auto pulled = PullCheckpoint(runtime_, *store_, "main", sampler, version);
    ASSERT_TRUE(pulled.ok()) << pulled.status().message();
    EXPECT_EQ(pulled->from, at);
    ExpectEqual(sampler, version);
    at = version;
  }
  EXPECT_EQ(PullCheckpoint(runtime_, *store_, "", sampler, std::nullopt)->version, kVersions);
  ExpectEqual(sampler, kVersions);
}

TEST_F(StoreJourneyTest, AFirstCheckpointWithABaseIsVersionOne) {
  const PublishedCheckpoint published = Publish(1, State(0));
  EXPECT_TRUE(published.created);
  EXPECT_EQ(published.version, 1U);
  ASSERT_TRUE(PullCheckpoint(runtime_, *store_, "", folder_ / "sampler", std::nullopt).ok());
  ExpectEqual(folder_ / "sampler", 1);
}

TEST_F(StoreJourneyTest, AnUpdateWithoutChangesIsAVersion) {
  Publish(0);
  EXPECT_EQ(Publish(1).version, 1U);
  const PublishedCheckpoint again = Publish(1);
  EXPECT_EQ(again.version, 2U);
  EXPECT_EQ(again.manifest->change_count, 0U);
  ASSERT_TRUE(PullCheckpoint(runtime_, *store_, "", folder_ / "sampler", 2).ok());
  ExpectEqual(folder_ / "sampler", 1);
}

TEST_F(StoreJourneyTest, WhatIsNoVersionIsLeftAlone) {
  PublishAll();
  const fs::path other = folder_ / "other";
  weights_.Mutate(random_, layout_, 500);
  ASSERT_TRUE(WriteShardedCheckpoint(PosixFileOps(), other, layout_, FillFrom(weights_.bytes()), 4'000).ok());
  const auto pulled = PullCheckpoint(runtime_, *store_, "", other, 2);
  EXPECT_EQ(pulled.status().code(), Code::kRefused);
  EXPECT_THAT(pulled.status().message(), HasSubstr("is no version of stream 'main'"));
  EXPECT_EQ(PullCheckpoint(runtime_, *store_, "", State(0), 99).status().message(), "version 99 is not published yet");
  PublishRequest request;
  request.checkpoint = State(1);
  request.base = other;
  EXPECT_EQ(PublishCheckpoint(runtime_, *store_, request).status().code(), Code::kRefused);
  EXPECT_EQ(Stream::Open(*store_, "").value().Newest().value(), kVersions);
}

TEST_F(StoreJourneyTest, ADamagedPayloadIsRefusedBeforeAnythingChanges) {
  PublishAll();
  const fs::path sampler = folder_ / "sampler";
  ASSERT_TRUE(PullCheckpoint(runtime_, *store_, "", sampler, 0).ok());
  EXPECT_GE(Damage(".xob"), kVersions);
  const auto pulled = PullCheckpoint(runtime_, *store_, "", sampler, 5);
  EXPECT_EQ(pulled.status().code(), Code::kCorrupt);
  ExpectEqual(sampler, 0);
}

TEST_F(StoreJourneyTest, ADamagedDeltaIsGoneAround) {
  PublishAll();
  const fs::path sampler = folder_ / "sampler";
  ASSERT_TRUE(PullCheckpoint(runtime_, *store_, "", sampler, 0).ok());
  ASSERT_GE(Damage("/fold/owner-"), 1U);
  ASSERT_TRUE(PullCheckpoint(runtime_, *store_, "", sampler, 5).ok());
  ExpectEqual(sampler, 5);
}

TEST_F(StoreJourneyTest, AMissingStepIsGoneAround) {
  PublishAll();
  const fs::path sampler = folder_ / "sampler";
  ASSERT_TRUE(PullCheckpoint(runtime_, *store_, "", sampler, 2).ok());
  ASSERT_TRUE(fs::exists(folder_ / "store/main/v000003/from_v000000/fold"));
  fs::remove_all(folder_ / "store/main/v000003/from_v000002");
  ASSERT_TRUE(PullCheckpoint(runtime_, *store_, "", sampler, 3).ok());
  ExpectEqual(sampler, 3);
}

TEST_F(StoreJourneyTest, ADamagedWholeVersionIsPassedOver) {
  Publish(0);
  PublishRequest request;
  request.checkpoint = State(1);
  request.with_anchor = true;
  ASSERT_TRUE(PublishCheckpoint(runtime_, *store_, request).ok());
  const fs::path stored = fs::directory_iterator(folder_ / "store/main/v000001/full")->path();
  ASSERT_GE(Damage((stored / "model").string()), 1U);
  ASSERT_TRUE(PullCheckpoint(runtime_, *store_, "", folder_ / "sampler", 1).ok());
  ExpectEqual(folder_ / "sampler", 1);
  EXPECT_EQ(Publish(2).version, 2U);
}

TEST_F(StoreJourneyTest, WhatCannotBeStoredIsRefusedBeforeAnythingIsWritten) {
  ASSERT_TRUE(WriteWholeFile(PosixFileOps(), State(0) / "read me.txt", AsBytes("hello")).ok());
  PublishRequest request;
  request.checkpoint = State(0);
  const Status status = PublishCheckpoint(runtime_, *store_, request).status();
  EXPECT_EQ(status.code(), Code::kRefused);
  EXPECT_THAT(status.message(), HasSubstr("'read me.txt'"));
  EXPECT_FALSE(fs::exists(folder_ / "store"));
  Publish(1);
  request.with_anchor = true;
  EXPECT_EQ(PublishCheckpoint(runtime_, *store_, request).status().code(), Code::kRefused);
  EXPECT_EQ(Stream::Open(*store_, "").value().Newest().value(), 0U);
}

TEST_F(StoreJourneyTest, WhatIsFrozenIsDecidedOnce) {
  PublishRequest request;
  request.checkpoint = State(0);
  const std::string name = layout_.tensors()[0].name;
  request.delta.rules.frozen = {name};
  ASSERT_TRUE(PublishCheckpoint(runtime_, *store_, request).ok());
  EXPECT_EQ(PublishCheckpoint(runtime_, *store_, request)->version, 1U);
  request.delta.rules.frozen = {layout_.tensors()[1].name};
  const Status status = PublishCheckpoint(runtime_, *store_, request).status();
  EXPECT_EQ(status.code(), Code::kRefused);
  EXPECT_THAT(status.message(), HasSubstr("frozen in this stream"));
  request.delta.rules.frozen.clear();
  EXPECT_EQ(PublishCheckpoint(runtime_, *store_, request)->version, 2U);
}

// No object whose path holds `part` can be created.
class FailingObjects final : public ForwardingFileOps {
 public:
  explicit FailingObjects(std::string part) : part_(std::move(part)) {}
  Status Link(const fs::path& from, const fs::path& to) override {
    if (to.string().find(part_) != std::string::npos) return IoError("no space");
    return ForwardingFileOps::Link(from, to);
  }

 private:
  const std::string part_;
};

TEST_F(StoreJourneyTest, AnInterruptedPublicationDoesNotBlockOneWithOtherOwners) {
  Publish(0);
  FailingObjects ops("v000001/version.json");
  const auto failing = OpenFolderStore(ops, folder_ / "store").value();
  for (const uint32_t owner_count : {3, 1, 2}) {
    PublishRequest request;
    request.checkpoint = State(1);
    request.delta.owner_count = owner_count;
    EXPECT_EQ(PublishCheckpoint(runtime_, *failing, request).status().code(), Code::kIo);
  }
  EXPECT_EQ(Publish(1).version, 1U);
  ASSERT_TRUE(PullCheckpoint(runtime_, *store_, "", folder_ / "sampler", 1).ok());
  ExpectEqual(folder_ / "sampler", 1);
}

TEST_F(StoreJourneyTest, AVersionWhoseFoldsFailIsPublished) {
  for (uint64_t version = 0; version <= 2; ++version) Publish(version);
  FailingObjects ops("/fold/");
  const auto failing = OpenFolderStore(ops, folder_ / "store").value();
  PublishRequest request;
  request.checkpoint = State(3);
  const auto published = PublishCheckpoint(runtime_, *failing, request);
  ASSERT_TRUE(published.ok()) << published.status().message();
  EXPECT_EQ(published->version, 3U);
  EXPECT_EQ(published->fold_count, 0U);
  EXPECT_EQ(published->folds.code(), Code::kIo);
  ASSERT_TRUE(PullCheckpoint(runtime_, *store_, "", folder_ / "sampler", 3).ok());
  ExpectEqual(folder_ / "sampler", 3);
}

}  // namespace
}  // namespace xorbit
