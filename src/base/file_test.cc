// Reads and copies must take exactly what they were asked for, or name the file and say where it ends.
#include "base/file.h"

#include <gtest/gtest.h>

#include <cstdlib>

namespace xorbit {
namespace {

class FileTest : public testing::Test {
 protected:
  void SetUp() override {
    std::string pattern = (fs::temp_directory_path() / "xorbit-file-XXXXXX").string();
    ASSERT_NE(::mkdtemp(pattern.data()), nullptr);
    folder_ = pattern;
  }
  void TearDown() override { fs::remove_all(folder_); }

  fs::path folder_;
};

TEST_F(FileTest, ReadAtFillsOrSaysWhereTheFileEnds) {
  ASSERT_TRUE(WriteWholeFile(PosixFileOps(), folder_ / "a", AsBytes("0123456789")).ok());
  Result<UniqueFd> fd = OpenForRead(folder_ / "a");
  ASSERT_TRUE(fd.ok());
  Buffer bytes(4);
  ASSERT_TRUE(ReadAt(*fd, bytes, 6).ok());
  EXPECT_EQ(AsText(bytes), "6789");
  EXPECT_EQ(ReadAt(*fd, bytes, 7).code(), Code::kCorrupt);
}

TEST_F(FileTest, OnlyRegularFilesAreRead) {
  EXPECT_EQ(OpenForRead(folder_).status().code(), Code::kRefused);
  EXPECT_EQ(OpenForRead(folder_ / "absent").status().code(), Code::kNotFound);
}

TEST_F(FileTest, CopyContentsCopiesWholesAndHeads) {
  Buffer bytes(3'000'001);
  for (size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<uint8_t>(i * i >> 3);
  ASSERT_TRUE(WriteWholeFile(PosixFileOps(), folder_ / "a", bytes).ok());
  Result<UniqueFd> source = OpenForRead(folder_ / "a");
  ASSERT_TRUE(source.ok());
  for (const uint64_t byte_count : {uint64_t{0}, uint64_t{4097}, uint64_t{bytes.size()}}) {
    const fs::path path = folder_ / std::to_string(byte_count);
    Result<UniqueFd> target = PosixFileOps().Create(path, /*exclusive=*/true);
    ASSERT_TRUE(target.ok());
    ASSERT_TRUE(PosixFileOps().CopyContents(*source, *target, byte_count).ok());
    Result<Buffer> copy = ReadWholeFile(path, bytes.size());
    ASSERT_TRUE(copy.ok());
    EXPECT_TRUE(*copy == Buffer(bytes.begin(), bytes.begin() + static_cast<ptrdiff_t>(byte_count))) << byte_count;
  }
  Result<UniqueFd> target = PosixFileOps().Create(folder_ / "beyond", /*exclusive=*/true);
  ASSERT_TRUE(target.ok());
  EXPECT_EQ(PosixFileOps().CopyContents(*source, *target, bytes.size() + 1).code(), Code::kCorrupt);
}

}  // namespace
}  // namespace xorbit
