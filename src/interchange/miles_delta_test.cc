// Folders written here and read back, and folders that somebody damaged: the right base gets every change, nothing else gets
// any.
#include "interchange/miles_delta.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>

#include "base/testing/seed.h"
#include "interchange/miles_test_folder.h"

namespace xorbit {
namespace {

using testing::HasSubstr;

TEST(MilesFolder, PropertyRoundTrip) {
  const uint64_t seed = TestSeed();
  SCOPED_TRACE("seed " + std::to_string(seed));
  Random random(seed);
  for (int round = 0; round < 15; ++round) {
    const Layout layout = RandomLayout(random, 12, 100000);
    const RandomTensors olds(random, layout);
    RandomTensors news(random, layout);
    news.CopyFrom(olds);
    news.Mutate(random, layout, Between(random, 0, 20));
    MilesWriteOptions options;
    options.encoding = Between(random, 0, 1) == 0 ? MilesEncoding::kXor : MilesEncoding::kOverwrite;
    options.checksum_format = Between(random, 0, 1) == 0 ? ChecksumFormat::kXxh128 : ChecksumFormat::kAdler32;
    options.owner_count = static_cast<uint32_t>(Between(random, 1, 4));
    options.threads = static_cast<int>(Between(random, 1, 4));
    options.version = Between(random, 1, 2000000);
    options.base_version = options.version - 1;
    const TemporaryFolder folder;
    const fs::path path = folder / MilesFolderName(options.version);
    const MilesWriteReport report = WriteMilesFolder(PosixFileOps(), path, layout, olds.bytes(), news.bytes(), options).value();
    const MilesDelta delta = MilesDelta::Open(path, layout).value();
    EXPECT_EQ(delta.entries().size(), report.changed_tensor_count);
    EXPECT_EQ(delta.total_file_bytes(), report.total_file_bytes);
    EXPECT_EQ(delta.index().version, options.version);
    const bool unchanged = report.changed_tensor_count == 0;
    EXPECT_EQ(delta.VerifyAgainst(olds.bytes(), options.threads).value().state,
              unchanged ? MilesState::kTarget : MilesState::kBase);
    EXPECT_EQ(delta.VerifyAgainst(news.bytes(), options.threads).value().state, MilesState::kTarget);
    EXPECT_TRUE(SameBytes(ApplyTo(delta, olds.bytes()), news.bytes()));
    EXPECT_TRUE(SameBytes(ApplyTo(delta, olds.bytes()), news.bytes()));
  }
}

TEST_F(MilesFolderTest, TellsOtherStatesApart) {
  Write();
  const MilesDelta delta = MilesDelta::Open(path(), layout_).value();
  RandomTensors live(random_, layout_);
  live.CopyFrom(olds_);
  live.mutable_bytes()[1][0] ^= 1;
  EXPECT_EQ(delta.VerifyAgainst(live.bytes(), 2).value().state, MilesState::kNeither);
  EXPECT_EQ(delta.VerifyAgainst(live.bytes(), 2).value().tensor_name, "b.bias");
  live.CopyFrom(olds_);
  std::copy_n(news_.bytes()[0].begin(), news_.bytes()[0].size(), live.mutable_bytes()[0].begin());
  EXPECT_EQ(delta.VerifyAgainst(live.bytes(), 2).value().state, MilesState::kInterrupted);
  EXPECT_EQ(delta.VerifyAgainst(live.bytes(), 2).value().tensor_name, "a.weight");
}

// An overwrite may be finished over a half-written state: it does not matter what the overwritten bytes were.
TEST_F(MilesFolderTest, OverwriteHealsItsOwnInterruption) {
  MilesWriteOptions options;
  options.encoding = MilesEncoding::kOverwrite;
  Write(options);
  const MilesDelta delta = MilesDelta::Open(path(), layout_).value();
  RandomTensors live(random_, layout_);
  live.CopyFrom(olds_);
  std::copy_n(news_.bytes()[0].begin(), 1000, live.mutable_bytes()[0].begin());
  EXPECT_EQ(delta.VerifyAgainst(live.bytes(), 1).value().state, MilesState::kBase);
  EXPECT_TRUE(SameBytes(ApplyTo(delta, live.bytes()), news_.bytes()));
}

TEST_F(MilesFolderTest, RefusesAnotherModel) {
  Write();
  const Layout other = Layout::Make({{"a.weight", Dtype::kBF16, {300, 500}}}).value();
  const Status status = MilesDelta::Open(path(), other).status();
  EXPECT_EQ(status.code(), Code::kRefused);
  EXPECT_THAT(status.message(), HasSubstr("another model"));
  // The same names with other lengths show when the entries are decoded.
  const Layout longer =
      Layout::Make({{"a.weight", Dtype::kBF16, {300, 501}}, {"b.bias", Dtype::kF32, {100}}, {"c.scale", Dtype::kF8E8M0, {64}}})
          .value();
  const RandomTensors live(random_, longer);
  const Status verified = MilesDelta::Open(path(), longer).value().VerifyAgainst(live.bytes(), 1).status();
  EXPECT_EQ(verified.code(), Code::kCorrupt);
  EXPECT_THAT(verified.message(), HasSubstr("a.weight"));
}

TEST_F(MilesFolderTest, RefusesAbsentAndTruncatedFiles) {
  EXPECT_EQ(OpenStatus().code(), Code::kNotFound);
  Write();
  EXPECT_TRUE(HasMilesIndex(path()));
  const uint64_t size = fs::file_size(payload_path());
  for (const uint64_t length : {uint64_t{0}, uint64_t{7}, uint64_t{100}, size - 1}) {
    fs::resize_file(payload_path(), length);
    EXPECT_EQ(OpenStatus().code(), Code::kCorrupt) << length;
  }
  fs::remove(payload_path());
  const Status status = OpenStatus();
  EXPECT_EQ(status.code(), Code::kNotFound);
  EXPECT_THAT(status.message(), HasSubstr("model-00000-of-00001.safetensors"));
}

TEST_F(MilesFolderTest, IndexAndFilesMustAgree) {
  Write();
  ReplaceInIndex("b.bias", "d.bias");
  EXPECT_THAT(OpenStatus().message(), HasSubstr("does not list"));
  ReplaceInIndex("d.bias", "b.bias");
  ASSERT_TRUE(OpenStatus().ok());
  ReplaceInIndex("\"b.bias\":\"model-00000-of-00001.safetensors\"",
                 "\"b.bias\":\"model-00000-of-00001.safetensors\",\"e\":\"model-00000-of-00001.safetensors\"");
  EXPECT_THAT(OpenStatus().message(), HasSubstr("do not hold"));
}

TEST_F(MilesFolderTest, ReadsNoFileThatTheIndexDoesNotName) {
  Write();
  ASSERT_TRUE(WriteWholeFile(PosixFileOps(), path() / "model-00001-of-00001.safetensors", AsBytes("junk")).ok());
  EXPECT_TRUE(OpenStatus().ok());
}

TEST_F(MilesFolderTest, RefusesTheSameTensorInTwoFiles) {
  Write();
  fs::copy_file(payload_path(), path() / "copy.safetensors");
  ReplaceInIndex("\"b.bias\":\"model-00000-of-00001.safetensors\"", "\"b.bias\":\"copy.safetensors\"");
  EXPECT_EQ(OpenStatus().code(), Code::kCorrupt);
}

TEST_F(MilesFolderTest, RefusesEntriesOfAnotherKind) {
  Write();
  EditPayload([](SafetensorsHeaderSpec* header, std::vector<Buffer>*) { header->entries[0].dtype = Dtype::kI8; });
  EXPECT_THAT(OpenStatus().message(), HasSubstr("not flat U8"));
  EditPayload([](SafetensorsHeaderSpec* header, std::vector<Buffer>*) {
    header->entries[0].dtype = Dtype::kU8;
    header->entries[0].shape.insert(header->entries[0].shape.begin(), 1);
  });
  EXPECT_THAT(OpenStatus().message(), HasSubstr("not flat U8"));
}

TEST_F(MilesFolderTest, EveryTensorNeedsItsChecksum) {
  Write();
  EditPayload([](SafetensorsHeaderSpec* header, std::vector<Buffer>*) { header->metadata["b.bias"] = "no"; });
  EXPECT_EQ(OpenStatus().code(), Code::kCorrupt);
  EditPayload([](SafetensorsHeaderSpec* header, std::vector<Buffer>*) { header->metadata["b.bias"] = std::string(32, '0'); });
  const MilesVerdict verdict = MilesDelta::Open(path(), layout_).value().VerifyAgainst(olds_.bytes(), 2).value();
  EXPECT_EQ(verdict.state, MilesState::kNeither);
  EXPECT_EQ(verdict.tensor_name, "b.bias");
  EditPayload([](SafetensorsHeaderSpec* header, std::vector<Buffer>*) { header->metadata.erase("b.bias"); });
  EXPECT_THAT(OpenStatus().message(), HasSubstr("no checksum"));
}

TEST_F(MilesFolderTest, FlippedBitsAreFoundBeforeAnythingIsDelivered) {
  Write();
  const Buffer intact = ReadWholeFile(payload_path(), 1 << 20).value();
  for (size_t at = 0; at < intact.size(); at += 1 + at % 211) {
    Buffer damaged = intact;
    damaged[at] ^= static_cast<uint8_t>(1 << (at % 8));
    fs::remove(payload_path());
    ASSERT_TRUE(WriteWholeFile(PosixFileOps(), payload_path(), damaged).ok());
    const Result<MilesDelta> delta = MilesDelta::Open(path(), layout_);
    if (!delta.ok()) continue;
    const Result<MilesVerdict> verdict = delta->VerifyAgainst(olds_.bytes(), 1);
    // A flip may be harmless (padding, or another way to say the same in a frame); then the result is right all the same.
    const bool accepted = verdict.ok() && verdict->state == MilesState::kBase;
    EXPECT_TRUE(!accepted || SameBytes(ApplyTo(*delta, olds_.bytes()), news_.bytes()));
  }
}

}  // namespace
}  // namespace xorbit
