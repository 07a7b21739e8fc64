// Folders that each change a few tensors, and checkpoints that are one of their versions or only look like one to some folder:
// what is found is compared with the states themselves.
#include "interchange/miles_chain.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>

#include "base/temporary_folder.h"
#include "base/testing/seed.h"
#include "interchange/miles_writer.h"
#include "tensor/checkpoint_writer.h"
#include "tensor/random_model.h"
#include "tensor/tensor_test_util.h"

namespace xorbit {
namespace {

using testing::HasSubstr;

constexpr uint64_t kTensors = 3;

// Versions 0, 1, ... of three tensors; each step changes those that it is told to.
class MilesChainTest : public testing::Test {
 protected:
  MilesChainTest() { states_.push_back({Buffer(600, 1), Buffer(600, 2), Buffer(600, 3)}); }

  static std::vector<ConstBytes> BytesOf(const std::vector<Buffer>& state) { return {state.begin(), state.end()}; }
  fs::path FolderOf(uint64_t version) const { return root_ / MilesFolderName(version); }

  // The next version; its folder says what `options` say if they name a version.
  void Publish(const std::vector<size_t>& tensors, MilesWriteOptions options = {}) {
    std::vector<Buffer> next = states_.back();
    for (const size_t tensor : tensors) ++next[tensor][Between(random_, 0, 599)];
    if (options.version <= 1) {
      options.version = states_.size();
      options.base_version = options.version - 1;
    }
    const auto written =
        WriteMilesFolder(PosixFileOps(), FolderOf(states_.size()), layout_, BytesOf(states_.back()), BytesOf(next), options);
    ASSERT_TRUE(written.ok()) << written.status().message();
    states_.push_back(next);
  }
  Result<std::optional<uint64_t>> Find(const std::vector<Buffer>& state) const {
    XORBIT_ASSIGN_OR_RETURN(const MilesChain chain, MilesChain::Open(root_.path(), layout_));
    return chain.VersionOf(BytesOf(state), 2);
  }
  // The states themselves: the newest version that is these bytes.
  std::optional<uint64_t> Search(const std::vector<Buffer>& state) const {
    for (size_t version = states_.size(); version-- > 0;) {
      if (states_[version] == state) return version;
    }
    return std::nullopt;
  }

  Random random_{TestSeed()};
  TemporaryFolder root_;
  Layout layout_ = Layout::Make({{"a", Dtype::kBF16, {300}}, {"b", Dtype::kBF16, {300}}, {"c", Dtype::kBF16, {300}}}).value();
  std::vector<std::vector<Buffer>> states_;
};

TEST_F(MilesChainTest, EveryTensorThatAFolderChangesHasASay) {
  Publish({0});
  Publish({1});
  for (uint64_t version = 0; version <= 2; ++version) EXPECT_EQ(Find(states_[version]).value(), version);
  // What the newest folder alone would take for its base, or for its version.
  EXPECT_EQ(Find({states_[0][0], states_[2][1], states_[0][2]}).value(), std::nullopt);
  // What fits no folder.
  std::vector<Buffer> damaged = states_[2];
  damaged[1][7] ^= 0x40;
  EXPECT_EQ(Find(damaged).value(), std::nullopt);
}

TEST_F(MilesChainTest, PropertyMixturesOfVersionsAreFoundExactlyWhereTheyAreOne) {
  SCOPED_TRACE("seed " + std::to_string(TestSeed()));
  for (const MilesEncoding encoding : {MilesEncoding::kXor, MilesEncoding::kOverwrite}) {
    Publish({0, 1, 2}, {.encoding = encoding});  // so that nothing is taken on trust
    while (states_.size() < 8)
      Publish({Between(random_, 0, kTensors - 1), Between(random_, 0, kTensors - 1)}, {.encoding = encoding});
    for (int round = 0; round < 300; ++round) {
      std::vector<Buffer> state;
      const uint64_t near = Between(random_, 0, states_.size() - 1);
      for (size_t tensor = 0; tensor < kTensors; ++tensor) {
        const uint64_t version = Between(random_, 0, 3) == 0 ? Between(random_, 0, states_.size() - 1) : near;
        state.push_back(states_[version][tensor]);
      }
      EXPECT_EQ(Find(state).value(), Search(state)) << round;
    }
    states_.resize(1);
    for (const auto& entry : fs::directory_iterator(root_.path())) fs::remove_all(entry.path());
  }
}

TEST_F(MilesChainTest, AFullVersionProvesWhatNoDeltaChanges) {
  Publish({0});
  Publish({0});
  fs::remove_all(FolderOf(1));
  fs::remove_all(FolderOf(2));
  const auto fill = FillFrom(BytesOf(states_[1]));
  ASSERT_TRUE(WriteShardedCheckpoint(PosixFileOps(), FolderOf(1), layout_, fill, 700).ok());
  EXPECT_EQ(Find(states_[1]).value(), 1);
  std::vector<Buffer> other = states_[1];
  other[2][5] ^= 1;  // no delta speaks of it
  EXPECT_EQ(Find(other).value(), std::nullopt);
  EXPECT_EQ(Find(states_[0]).value(), std::nullopt);
}

TEST_F(MilesChainTest, ANewestFolderThatCannotBeReadIsLeftOutWhereThatIsNoDoubt) {
  Publish({0});
  Publish({0});
  fs::resize_file(FolderOf(2) / MilesPayloadName(0, 1), 40);
  EXPECT_EQ(Find(states_[1]).value(), 1);
  EXPECT_EQ(Find(states_[0]).value(), 0);
  EXPECT_EQ(Find(states_[2]).status().code(), Code::kCorrupt);  // it may be that version
  EXPECT_EQ(FindMilesWay(root_.path(), layout_, 1, {}).status().code(), Code::kCorrupt);
  // One that changes what no other folder speaks of: nobody can tell whether that has happened.
  fs::remove_all(FolderOf(2));
  states_.pop_back();
  Publish({1});
  fs::remove(FolderOf(2) / MilesPayloadName(0, 1));
  EXPECT_EQ(Find(states_[1]).status().code(), Code::kNotFound);
  EXPECT_EQ(Find(states_[2]).status().code(), Code::kNotFound);
  // One in the middle.
  Publish({2});
  EXPECT_EQ(Find(states_[3]).status().code(), Code::kNotFound);
}

TEST_F(MilesChainTest, FoldersThatDoNotFollowOneAnotherAreRefused) {
  EXPECT_EQ(Find(states_[0]).value(), 0);  // nothing is published yet
  Publish({0});
  fs::create_directory(root_ / "weight_v99999999999");  // no index: not a version yet
  fs::create_directory(root_ / "weight_v7");
  std::ofstream(root_ / "weight_v7" / kMilesIndexFile) << "{";  // no folder's name
  Publish({1});
  EXPECT_EQ(Find(states_[2]).value(), 2);
  Publish({2}, {.base_version = 7, .version = 9});
  EXPECT_THAT(Find(states_[2]).status().message(), HasSubstr("says that it is version 9"));
  EXPECT_EQ(FindMilesWay(root_.path(), layout_, 2, {}).status().code(), Code::kRefused);
  fs::remove_all(FolderOf(3));
  states_.pop_back();
  Publish({2}, {.base_version = 0, .version = 3});
  EXPECT_THAT(Find(states_[2]).status().message(), HasSubstr("starts from version 0, but before it comes version 2"));
  EXPECT_EQ(FindMilesWay(root_.path(), layout_, 2, 3).status().code(), Code::kRefused);
  EXPECT_EQ(FindMilesWay(root_.path(), layout_, 0, 2).value().size(), 2);
  EXPECT_EQ(FindMilesWay(root_.path(), layout_, 2, 2).value().size(), 0);
  EXPECT_EQ(FindMilesWay(root_.path(), layout_, 0, 5).status().code(), Code::kRefused);
  fs::remove_all(FolderOf(3));
  EXPECT_EQ(FindMilesWay(root_.path(), layout_, 0, 5).status().code(), Code::kNotFound);
  EXPECT_EQ(FindMilesWay(root_.path(), layout_, 0, {}).value().back().version, 2);
  fs::remove_all(FolderOf(1));
  EXPECT_EQ(FindMilesWay(root_.path(), layout_, 0, {}).status().code(), Code::kRefused);
}

}  // namespace
}  // namespace xorbit
