// Checkpoints in all their shapes must open as one layout, and whatever does not fit together must be refused by name.
#include "tensor/checkpoint.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "base/temporary_folder.h"
#include "tensor/checkpoint_index.h"

namespace xorbit {
namespace {

using testing::HasSubstr;

class CheckpointTest : public testing::Test {
 protected:
  void Write(const std::string& name, std::string_view text) {
    ASSERT_TRUE(WriteWholeFile(PosixFileOps(), folder_ / name, AsBytes(text)).ok());
  }

  // U8 vectors of 3 bytes, each byte the name's last.
  void WriteTensors(const std::string& name, const std::vector<std::string>& tensors) {
    SafetensorsHeaderSpec spec;
    for (const std::string& tensor : tensors) spec.entries.push_back({tensor, Dtype::kU8, {3}, 0, 0});
    Buffer file = BuildSafetensorsHeader(spec).value();
    for (const std::string& tensor : tensors) file.insert(file.end(), 3, static_cast<uint8_t>(tensor.back()));
    Write(name, AsText(file));
  }

  std::string ErrorOf(const fs::path& path, Code code = Code::kCorrupt) {
    const auto checkpoint = Checkpoint::Open(path);
    if (checkpoint.ok()) return "";
    EXPECT_EQ(checkpoint.status().code(), code) << checkpoint.status().message();
    return checkpoint.status().message();
  }

  TemporaryFolder folder_;
};

// Each header alone is within its limit, and sparse files cost their sender nothing.
TEST_F(CheckpointTest, BoundsTheHeadersOfAllFilesTogether) {
  Buffer length;
  AppendLe(length, kSafetensorsMaxHeaderBytes);
  const auto write = [&](const char* name) {
    Write(name, AsText(length));
    fs::resize_file(folder_ / name, length.size() + kSafetensorsMaxHeaderBytes);
  };
  write("a.safetensors");
  write("b.safetensors");
  EXPECT_THAT(ErrorOf(folder_.path()), HasSubstr("does not begin with '{'"));
  write("c.safetensors");
  EXPECT_THAT(ErrorOf(folder_.path()),
              HasSubstr("the headers of 3 files have 300000000 bytes in all, over the limit of 200000000"));
}

TEST_F(CheckpointTest, ASingleFile) {
  WriteTensors("m.safetensors", {"b", "a"});
  const auto checkpoint = Checkpoint::Open(folder_ / "m.safetensors");
  ASSERT_TRUE(checkpoint.ok()) << checkpoint.status().message();
  EXPECT_FALSE(checkpoint->is_folder());
  EXPECT_EQ(checkpoint->path(), folder_ / "m.safetensors");
  ASSERT_EQ(checkpoint->layout().tensors().size(), 2);
  EXPECT_EQ(AsText(checkpoint->tensor_bytes(0)), "aaa");
  EXPECT_EQ(AsText(checkpoint->tensor_bytes(1)), "bbb");
  EXPECT_EQ(checkpoint->locations()[1].offset_bytes, checkpoint->files()[0].header_bytes);
  EXPECT_EQ(checkpoint->all_tensor_bytes().size(), 2);
}

TEST_F(CheckpointTest, AFolderWithoutAnIndexIsAllOfItsFiles) {
  WriteTensors("2.safetensors", {"x.a", "x.d"});
  WriteTensors("1.safetensors", {"x.c", "x.b"});
  Write(".hidden.safetensors", "not one of them");
  Write("config.json", "{}");
  fs::create_directory(folder_ / "sub.safetensors");
  const auto checkpoint = Checkpoint::Open(folder_.path());
  ASSERT_TRUE(checkpoint.ok()) << checkpoint.status().message();
  EXPECT_TRUE(checkpoint->is_folder());
  ASSERT_EQ(checkpoint->files().size(), 2);
  EXPECT_EQ(checkpoint->files()[0].path, folder_ / "1.safetensors");
  std::string all;
  for (const ConstBytes bytes : checkpoint->all_tensor_bytes()) all += AsText(bytes);
  EXPECT_EQ(all, "aaabbbcccddd");
  EXPECT_EQ(checkpoint->locations()[1].file_index, 0);
  EXPECT_EQ(checkpoint->locations()[3].file_index, 1);
}

TEST_F(CheckpointTest, AnIndexDecidesWhichFilesCount) {
  WriteTensors("1.safetensors", {"a"});
  WriteTensors("2.safetensors", {"b"});
  WriteTensors("consolidated.safetensors", {"a", "b"});
  EXPECT_THAT(
      ErrorOf(folder_.path()),
      HasSubstr("tensor 'a' is in both '1.safetensors' and 'consolidated.safetensors': name the one file that is meant"));
  Write(std::string(kCheckpointIndexName), R"({"weight_map":{"a":"1.safetensors","b":"2.safetensors"}})");
  const auto checkpoint = Checkpoint::Open(folder_.path());
  ASSERT_TRUE(checkpoint.ok()) << checkpoint.status().message();
  EXPECT_EQ(checkpoint->files().size(), 2);
  EXPECT_EQ(AsText(checkpoint->tensor_bytes(1)), "bbb");
}

TEST_F(CheckpointTest, AnIndexMustAgreeWithTheFiles) {
  WriteTensors("1.safetensors", {"a"});
  WriteTensors("2.safetensors", {"b"});
  const auto with_index = [&](std::string_view map) {
    fs::remove(folder_ / kCheckpointIndexName);
    Write(std::string(kCheckpointIndexName), "{\"weight_map\":" + std::string(map) + "}");
  };
  with_index(R"({"a":"1.safetensors","b":"1.safetensors"})");
  EXPECT_THAT(ErrorOf(folder_.path()), HasSubstr("the index puts tensor 'b' into '1.safetensors', which does not hold it"));
  with_index(R"({"a":"1.safetensors","b":"2.safetensors","lm_head":"2.safetensors"})");
  EXPECT_THAT(ErrorOf(folder_.path()), HasSubstr("'lm_head' into '2.safetensors', which does not hold it"));
  with_index(R"({"a":"2.safetensors","b":"1.safetensors"})");
  EXPECT_THAT(ErrorOf(folder_.path()), HasSubstr("'a' into '2.safetensors', but it is in '1.safetensors'"));
  WriteTensors("3.safetensors", {"c", "tied"});
  with_index(R"({"a":"1.safetensors","b":"2.safetensors","c":"3.safetensors"})");
  EXPECT_THAT(ErrorOf(folder_.path()), HasSubstr("tensor 'tied' is in '3.safetensors', but the index does not have it"));
  with_index(R"({"a":"1.safetensors","b":"4.safetensors"})");
  EXPECT_THAT(ErrorOf(folder_.path(), Code::kNotFound), HasSubstr("4.safetensors"));
  with_index(R"({"a":"../1.safetensors"})");
  EXPECT_THAT(ErrorOf(folder_.path()), HasSubstr("index.json: weight_map puts tensor 'a' into '../1.safetensors'"));
}

TEST_F(CheckpointTest, SaysWhatIsNotThere) {
  EXPECT_THAT(ErrorOf(folder_ / "none", Code::kNotFound), HasSubstr("cannot open checkpoint"));
  EXPECT_THAT(ErrorOf(folder_.path(), Code::kNotFound), HasSubstr("holds no .safetensors file"));
  Write("m.safetensors", std::string_view("\x02\0\0\0\0\0\0\0{}", 10));
  EXPECT_THAT(ErrorOf(folder_.path(), Code::kNotFound), HasSubstr("holds no tensors"));
  Write("n.safetensors", "");
  EXPECT_THAT(ErrorOf(folder_.path()), HasSubstr("n.safetensors: truncated"));
  fs::remove(folder_ / "n.safetensors");
  fs::create_symlink("nowhere", folder_ / "n.safetensors");
  EXPECT_THAT(ErrorOf(folder_.path(), Code::kNotFound), HasSubstr("n.safetensors"));
}

TEST_F(CheckpointTest, LinksAreFollowedAsInDownloadCaches) {
  fs::create_directory(folder_ / "snapshot");
  WriteTensors("blob", {"a"});
  fs::create_symlink("../blob", folder_ / "snapshot/model.safetensors");
  const auto checkpoint = Checkpoint::Open(folder_ / "snapshot");
  ASSERT_TRUE(checkpoint.ok()) << checkpoint.status().message();
  EXPECT_EQ(AsText(checkpoint->tensor_bytes(0)), "aaa");
}

TEST_F(CheckpointTest, AMovedCheckpointKeepsItsBytes) {
  WriteTensors("m.safetensors", {"a"});
  auto opened = Checkpoint::Open(folder_ / "m.safetensors");
  ASSERT_TRUE(opened.ok());
  const ConstBytes bytes = opened->tensor_bytes(0);
  const Checkpoint moved = std::move(*opened);
  EXPECT_EQ(moved.tensor_bytes(0).data(), bytes.data());
  EXPECT_EQ(AsText(moved.tensor_bytes(0)), "aaa");
}

// A sparse file: only the header and the pages looked at are ever read.
TEST_F(CheckpointTest, TensorsOver4GiB) {
  constexpr uint64_t kElements = (uint64_t{5} << 30) / 2 + 3;
  const SafetensorsHeaderSpec spec = {{{"big", Dtype::kBF16, {kElements}, 0, 0}, {"last", Dtype::kU8, {3}, 0, 0}}, {}};
  const Buffer header = BuildSafetensorsHeader(spec).value();
  const fs::path path = folder_ / "m.safetensors";
  const uint64_t total_bytes = header.size() + 2 * kElements + 3;
  {
    const UniqueFd fd = PosixFileOps().Create(path, true).value();
    ASSERT_TRUE(PosixFileOps().Pwrite(fd, header, 0).ok());
    if (!PosixFileOps().Truncate(fd, total_bytes).ok()) GTEST_SKIP() << "this file system has no files of 5 GiB";
    ASSERT_TRUE(PosixFileOps().Pwrite(fd, AsBytes("endxyz"), total_bytes - 6).ok());
  }
  const auto checkpoint = Checkpoint::Open(path);
  ASSERT_TRUE(checkpoint.ok()) << checkpoint.status().message();
  EXPECT_EQ(checkpoint->layout().total_bytes(), 2 * kElements + 3);
  EXPECT_EQ(checkpoint->tensor_bytes(0).size(), 2 * kElements);
  EXPECT_EQ(AsText(checkpoint->tensor_bytes(0).last(3)), "end");
  EXPECT_EQ(checkpoint->tensor_bytes(0)[uint64_t{4} << 30], 0);
  EXPECT_EQ(checkpoint->locations()[1].offset_bytes, total_bytes - 3);
  EXPECT_EQ(AsText(checkpoint->tensor_bytes(1)), "xyz");
}

}  // namespace
}  // namespace xorbit
