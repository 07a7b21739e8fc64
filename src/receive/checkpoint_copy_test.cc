// Copies hold the changes and what belongs to the weights; whatever goes wrong, nothing appears and the source stays as it was.
#include "receive/checkpoint_copy.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/temporary_folder.h"
#include "base/testing/recording_file_ops.h"
#include "receive/testing/planned_change.h"

namespace xorbit {
namespace {

using testing::ElementsAre;

class CheckpointCopyTest : public testing::Test {
 protected:
  void SetUp() override {
    fs::create_directory(source());
    WriteWeights("model-1.safetensors", "first");
    WriteWeights("model-2.safetensors", "second");
  }

  fs::path source() const { return folder_ / "source"; }
  fs::path target() const { return folder_ / "target"; }

  void Write(const std::string& name, std::string_view text) {
    ASSERT_TRUE(WriteWholeFile(PosixFileOps(), source() / name, AsBytes(text)).ok());
  }

  // 1000 bytes of zeros.
  void WriteWeights(const std::string& file, const std::string& tensor) {
    Buffer bytes = BuildSafetensorsHeader({{{tensor, Dtype::kU8, {1000}, 0, 0}}, {}}).value();
    bytes.resize(bytes.size() + 1000);
    Write(file, AsText(bytes));
  }

  // Sets byte 7 and 9 of the tensor in the second file; `old` is what is said to be there.
  static OwnedPatch SomePatch(const Checkpoint& checkpoint, uint32_t file_index, uint8_t old) {
    return {file_index, 1, checkpoint.files()[file_index].header_bytes, {7, 9}, {old, old}, {0x11, 0x22}};
  }

  std::vector<std::string> Names(const fs::path& folder) {
    std::vector<std::string> names;
    for (const auto& entry : fs::directory_iterator(folder)) names.push_back(entry.path().filename().string());
    std::sort(names.begin(), names.end());
    return names;
  }

  Buffer Read(const fs::path& path) { return ReadWholeFile(path, 1 << 20).value(); }

  Status CopyAndChange(FileOps& ops, uint8_t old = 0) {
    XORBIT_ASSIGN_OR_RETURN(const Checkpoint checkpoint, Checkpoint::Open(source()));
    XORBIT_ASSIGN_OR_RETURN(const auto copy, CheckpointCopy::Make(ops, checkpoint, target()));
    XORBIT_RETURN_IF_ERROR(copy->Add(SomePatch(checkpoint, 1, old).View()));
    return copy->Publish();
  }

  TemporaryFolder folder_;
};

TEST_F(CheckpointCopyTest, HoldsTheChangesAndLeavesTheSource) {
  const Buffer first = Read(source() / "model-1.safetensors");
  Buffer second = Read(source() / "model-2.safetensors");
  const Status status = CopyAndChange(PosixFileOps());
  ASSERT_TRUE(status.ok()) << status.message();
  EXPECT_EQ(Read(source() / "model-2.safetensors"), second);
  EXPECT_EQ(Read(target() / "model-1.safetensors"), first);
  second[second.size() - 1000 + 7] = 0x11;
  second[second.size() - 1000 + 9] = 0x22;
  EXPECT_EQ(Read(target() / "model-2.safetensors"), second);
  EXPECT_THAT(Names(folder_.path()), ElementsAre("source", "target"));
}

TEST_F(CheckpointCopyTest, CarriesConfigurationAlongButNoOtherWeightsNorFolders) {
  Write("model.safetensors.index.json",
        R"({"metadata":{},"weight_map":{"first":"model-1.safetensors","second":"model-2.safetensors"}})");
  Write("config.json", "{}");
  WriteWeights("consolidated.safetensors", "all");
  fs::create_directory(source() / ".xorbit");
  fs::create_directory(source() / "original");
  ASSERT_TRUE(WriteWholeFile(PosixFileOps(), folder_ / "blob", AsBytes("tokens")).ok());
  fs::create_symlink("../blob", source() / "tokenizer.json");
  fs::create_symlink("../nothing", source() / "dangling");

  const Result<Checkpoint> checkpoint = Checkpoint::Open(source());
  ASSERT_TRUE(checkpoint.ok()) << checkpoint.status().message();
  const auto copy = CheckpointCopy::Make(PosixFileOps(), *checkpoint, target());
  ASSERT_TRUE(copy.ok()) << copy.status().message();
  ASSERT_TRUE((*copy)->Publish().ok());
  EXPECT_THAT(Names(target()), ElementsAre("config.json", "model-1.safetensors", "model-2.safetensors",
                                           "model.safetensors.index.json", "tokenizer.json"));
  EXPECT_EQ(AsText(Read(target() / "tokenizer.json")), "tokens");
  EXPECT_FALSE(fs::is_symlink(target() / "tokenizer.json"));
  EXPECT_THAT((*copy)->left_out(), ElementsAre("consolidated.safetensors"));
}

TEST_F(CheckpointCopyTest, ASingleFileBecomesASingleFile) {
  const Result<Checkpoint> checkpoint = Checkpoint::Open(source() / "model-1.safetensors");
  ASSERT_TRUE(checkpoint.ok());
  {
    const auto copy = CheckpointCopy::Make(PosixFileOps(), *checkpoint, target());
    ASSERT_TRUE(copy.ok());
    ASSERT_TRUE((*copy)->Add(SomePatch(*checkpoint, 0, 0).View()).ok());
    EXPECT_FALSE(fs::exists(target()));
    ASSERT_TRUE((*copy)->Publish().ok());
  }
  Buffer expected = Read(source() / "model-1.safetensors");
  expected[expected.size() - 1000 + 7] = 0x11;
  expected[expected.size() - 1000 + 9] = 0x22;
  EXPECT_EQ(Read(target()), expected);
  EXPECT_THAT(Names(folder_.path()), ElementsAre("source", "target"));
}

TEST_F(CheckpointCopyTest, RefusesTargetsThatExistAndOldValuesThatAreNotThere) {
  EXPECT_EQ(CopyAndChange(PosixFileOps(), /*old=*/1).code(), Code::kRefused);
  EXPECT_THAT(Names(folder_.path()), ElementsAre("source"));
  fs::create_directory(target());
  EXPECT_EQ(CopyAndChange(PosixFileOps()).code(), Code::kExists);
  EXPECT_TRUE(Names(target()).empty());
}

TEST_F(CheckpointCopyTest, EveryCallMayFailAndNothingHalfDoneAppears) {
  RecordingFileOps counting(folder_.path());
  ASSERT_TRUE(CopyAndChange(counting).ok());
  fs::remove_all(target());
  for (uint64_t call = 0; call < counting.call_count(); ++call) {
    RecordingFileOps ops(folder_.path());
    ops.FailCalls(call, call);
    EXPECT_FALSE(CopyAndChange(ops).ok()) << call;
    const bool only_last_sync_failed = call + 1 == counting.call_count();
    EXPECT_EQ(fs::exists(target()), only_last_sync_failed) << call;
  }
}

}  // namespace
}  // namespace xorbit
