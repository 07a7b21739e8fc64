// Checkpoints through a store and back: every version must come out byte for byte, from any other, from nothing, and after an
// interruption; and what is no version of the stream must be left alone.
#include "journey/store_journey.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "backend/cpu/cpu_backend.h"
#include "base/temporary_folder.h"
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
  for (const auto& entry : fs::recursive_directory_iterator(folder_ / "store")) {
    if (entry.path().extension() != ".xob") continue;
    fs::permissions(entry.path(), fs::perms::owner_all);
    const UniqueFd file = PosixFileOps().OpenForWrite(entry.path()).value();
    const uint8_t flipped[1] = {0xa5};
    ASSERT_TRUE(PosixFileOps().Pwrite(file, flipped, fs::file_size(entry.path()) / 2).ok());
  }
  const auto pulled = PullCheckpoint(runtime_, *store_, "", sampler, 5);
  EXPECT_EQ(pulled.status().code(), Code::kCorrupt);
  ExpectEqual(sampler, 0);
}

}  // namespace
}  // namespace xorbit
