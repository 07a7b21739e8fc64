// The writer's promises: the same bytes whatever the threads, one file an owner with changes, all or nothing.
#include "interchange/miles_writer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>

#include "base/testing/forwarding_file_ops.h"
#include "interchange/miles_test_folder.h"

namespace xorbit {
namespace {

using testing::HasSubstr;

TEST_F(MilesFolderTest, SameBytesWhateverTheThreads) {
  MilesWriteOptions options;
  options.owner_count = 2;
  Write(options);
  for (const int threads : {2, 5}) {
    options.threads = threads;
    const fs::path other = folder_ / ("threads" + std::to_string(threads));
    ASSERT_TRUE(WriteMilesFolder(PosixFileOps(), other, layout_, olds_.bytes(), news_.bytes(), options).ok());
    for (const auto& entry : fs::directory_iterator(path())) {
      EXPECT_EQ(ReadWholeFile(entry.path(), 1 << 20).value(), ReadWholeFile(other / entry.path().filename(), 1 << 20).value());
    }
  }
}

TEST_F(MilesFolderTest, OneFileForEachOwnerWithChanges) {
  news_.CopyFrom(olds_);
  news_.mutable_bytes()[1][3] ^= 1;
  MilesWriteOptions options;
  options.owner_count = 3;
  Write(options);
  EXPECT_TRUE(fs::exists(path() / "model-00000-of-00001.safetensors"));
  const MilesDelta delta = MilesDelta::Open(path(), layout_).value();
  ASSERT_EQ(delta.entries().size(), 1U);
  EXPECT_EQ(delta.entries()[0].tensor_index, 1U);
}

TEST_F(MilesFolderTest, EmptyDeltaIsAnIndexOnly) {
  news_.CopyFrom(olds_);
  Write();
  EXPECT_EQ(std::distance(fs::directory_iterator(path()), {}), 1);
  const MilesDelta delta = MilesDelta::Open(path(), layout_).value();
  EXPECT_TRUE(delta.entries().empty());
  EXPECT_EQ(delta.VerifyAgainst(olds_.bytes(), 1).value().state, MilesState::kTarget);
}

TEST_F(MilesFolderTest, NeverOverwritesAndLeavesNothingBehind) {
  Write();
  const Status again = WriteMilesFolder(PosixFileOps(), path(), layout_, olds_.bytes(), news_.bytes(), {}).status();
  EXPECT_EQ(again.code(), Code::kExists);
  MilesWriteOptions bad_level;
  bad_level.zstd_level = 1000;
  EXPECT_EQ(
      WriteMilesFolder(PosixFileOps(), folder_ / "other", layout_, olds_.bytes(), news_.bytes(), bad_level).status().code(),
      Code::kUsage);
  EXPECT_EQ(std::distance(fs::directory_iterator(folder_.path()), {}), 1);
}

TEST_F(MilesFolderTest, RefusesToChangeFrozenTensors) {
  std::vector<TensorSpec> tensors = layout_.tensors();
  tensors[2].frozen = true;
  layout_ = Layout::Make(tensors).value();
  news_.mutable_bytes()[2][0] = static_cast<uint8_t>(olds_.bytes()[2][0] ^ 1);
  const Status status = WriteMilesFolder(PosixFileOps(), path(), layout_, olds_.bytes(), news_.bytes(), {}).status();
  EXPECT_EQ(status.code(), Code::kRefused);
  EXPECT_THAT(status.message(), HasSubstr("c.scale"));
}

// A disk on which only the first `room` bytes of writing succeed.
class FullDisk final : public ForwardingFileOps {
 public:
  explicit FullDisk(uint64_t room) : room_(room) {}
  Status Pwrite(const UniqueFd& fd, ConstBytes bytes, uint64_t offset_bytes) override {
    if (written_.fetch_add(bytes.size()) + bytes.size() > room_) return IoError("No space left on device");
    return ForwardingFileOps::Pwrite(fd, bytes, offset_bytes);
  }

 private:
  const uint64_t room_;
  std::atomic<uint64_t> written_{0};
};

// Some threads compress and others wait for their turn when the disk is full: all must come back, with that error.
TEST(MilesWriter, AFullDiskEndsEveryThread) {
  Random random(11);
  std::vector<TensorSpec> tensors;
  for (int i = 0; i < 60; ++i) tensors.push_back({"layer." + std::to_string(i), Dtype::kBF16, {1000}});
  const Layout layout = Layout::Make(tensors).value();
  const RandomTensors olds(random, layout);
  const RandomTensors news(random, layout);
  MilesWriteOptions options;
  options.threads = 8;
  for (const uint64_t room : {0, 2000, 50000, 130000}) {
    const TemporaryFolder folder;
    FullDisk disk(room);
    const Status status = WriteMilesFolder(disk, folder / "delta", layout, olds.bytes(), news.bytes(), options).status();
    EXPECT_EQ(status.code(), Code::kIo);
    EXPECT_THAT(status.message(), HasSubstr("No space left"));
    EXPECT_TRUE(fs::is_empty(folder.path()));
  }
}

}  // namespace
}  // namespace xorbit
