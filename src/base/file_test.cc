// Reads and copies must take exactly what they were asked for, or name the file and say where it ends.
#include "base/file.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <optional>

#include "base/temporary_folder.h"

namespace xorbit {
namespace {

using testing::HasSubstr;

class FileTest : public testing::Test {
 protected:
  std::string Read(const fs::path& path) {
    const Result<Buffer> bytes = ReadWholeFile(path, 1 << 20);
    return bytes.ok() ? std::string(AsText(*bytes)) : "error: " + bytes.status().message();
  }

  FileOps& ops_ = PosixFileOps();
  TemporaryFolder folder_;
};

TEST_F(FileTest, WritesAndReadsWholeFiles) {
  ASSERT_TRUE(WriteWholeFile(ops_, folder_ / "a", AsBytes("hello")).ok());
  EXPECT_EQ(Read(folder_ / "a"), "hello");
  EXPECT_EQ(WriteWholeFile(ops_, folder_ / "a", AsBytes("again")).code(), Code::kExists);
  EXPECT_EQ(Read(folder_ / "a"), "hello");
  EXPECT_EQ(ReadWholeFile(folder_ / "a", 4).status().code(), Code::kCorrupt);
  EXPECT_TRUE(ReadWholeFile(folder_ / "a", 5).ok());
  const Status missing = ReadWholeFile(folder_ / "b", 5).status();
  EXPECT_EQ(missing.code(), Code::kNotFound);
  EXPECT_THAT(missing.message(), HasSubstr("/b'"));
}

TEST_F(FileTest, ReadAtFillsOrSaysWhereTheFileEnds) {
  ASSERT_TRUE(WriteWholeFile(PosixFileOps(), folder_ / "a", AsBytes("0123456789")).ok());
  Result<UniqueFd> fd = OpenForRead(folder_ / "a");
  ASSERT_TRUE(fd.ok());
  Buffer bytes(4);
  ASSERT_TRUE(ReadAt(*fd, bytes, 6).ok());
  EXPECT_EQ(AsText(bytes), "6789");
  EXPECT_EQ(ReadAt(*fd, bytes, 7).code(), Code::kCorrupt);
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

TEST_F(FileTest, MapsFiles) {
  ASSERT_TRUE(WriteWholeFile(ops_, folder_ / "a", AsBytes("mapped")).ok());
  ASSERT_TRUE(WriteWholeFile(ops_, folder_ / "empty", {}).ok());
  Result<MappedFile> map = MappedFile::Open(folder_ / "a");
  ASSERT_TRUE(map.ok());
  EXPECT_EQ(AsText(map->bytes()), "mapped");
  MappedFile moved = std::move(*map);
  EXPECT_EQ(AsText(moved.bytes()), "mapped");
  EXPECT_TRUE(map->bytes().empty());
  Result<MappedFile> empty = MappedFile::Open(folder_ / "empty");
  ASSERT_TRUE(empty.ok());
  EXPECT_TRUE(empty->bytes().empty());
  moved = std::move(*empty);
  EXPECT_TRUE(moved.bytes().empty());
}

TEST_F(FileTest, OnlyRegularFilesAreReadAndNothingWaits) {
  ASSERT_EQ(::mkfifo((folder_ / "fifo").c_str(), 0600), 0);
  EXPECT_EQ(MappedFile::Open(folder_ / "fifo").status().code(), Code::kRefused);
  EXPECT_EQ(ReadWholeFile(folder_ / "fifo", 1).status().code(), Code::kRefused);
  EXPECT_EQ(OpenForRead(folder_ / "fifo").status().code(), Code::kRefused);
  EXPECT_EQ(OpenForRead(folder_.path()).status().code(), Code::kRefused);
  EXPECT_EQ(OpenForRead(folder_ / "absent").status().code(), Code::kNotFound);
  const UniqueFd there = ops_.Create(folder_ / "there", /*exclusive=*/true).value();
  EXPECT_EQ(OpenForRead(folder_ / std::string("there\0x", 7)).status().code(), Code::kUsage);
  EXPECT_EQ(MappedFile::Open(folder_.path()).status().code(), Code::kRefused);
  EXPECT_EQ(MappedFile::Open("/dev/zero").status().code(), Code::kRefused);
}

TEST_F(FileTest, MutationsDoWhatTheySay) {
  {
    Result<UniqueFd> fd = ops_.Create(folder_ / "a", /*exclusive=*/true);
    ASSERT_TRUE(fd.ok());
    ASSERT_TRUE(ops_.Pwrite(*fd, AsBytes("0123456789"), 0).ok());
    ASSERT_TRUE(ops_.Pwrite(*fd, AsBytes("xyz"), 4).ok());
    ASSERT_TRUE(ops_.Truncate(*fd, 8).ok());
    ASSERT_TRUE(ops_.Sync(*fd).ok());
  }
  EXPECT_EQ(Read(folder_ / "a"), "0123xyz7");
  EXPECT_EQ(ops_.Create(folder_ / "a", /*exclusive=*/true).status().code(), Code::kExists);
  ASSERT_TRUE(ops_.Create(folder_ / "a", /*exclusive=*/false).ok());
  EXPECT_EQ(Read(folder_ / "a"), "") << "creating over a file empties it";
  EXPECT_EQ(ops_.OpenForWrite(folder_ / "b").status().code(), Code::kNotFound);

  ASSERT_TRUE(WriteWholeFile(ops_, folder_ / "b", AsBytes("b")).ok());
  EXPECT_EQ(ops_.RenameNoReplace(folder_ / "a", folder_ / "b").code(), Code::kExists);
  EXPECT_EQ(Read(folder_ / "b"), "b");
  EXPECT_TRUE(ops_.RenameNoReplace(folder_ / "a", folder_ / "c").ok());
  EXPECT_TRUE(ops_.Rename(folder_ / "b", folder_ / "c").ok());
  EXPECT_EQ(Read(folder_ / "c"), "b");
  EXPECT_TRUE(ops_.Unlink(folder_ / "c").ok());
  EXPECT_EQ(ops_.Unlink(folder_ / "c").code(), Code::kNotFound);

  EXPECT_TRUE(ops_.MakeFolder(folder_ / "d").ok());
  EXPECT_EQ(ops_.MakeFolder(folder_ / "d").code(), Code::kExists);
  EXPECT_TRUE(ops_.SyncFolder(folder_ / "d").ok());
  EXPECT_TRUE(ops_.SyncFolder("").ok()) << "the parent of a bare file name";
  EXPECT_EQ(ops_.SyncFolder(folder_ / "e").code(), Code::kNotFound);
}

TEST_F(FileTest, AFullDiskIsAnIoError) {
  const UniqueFd full(::open("/dev/full", O_RDWR));
  if (!full.valid()) GTEST_SKIP() << "no /dev/full here";
  const Status status = ops_.Pwrite(full, AsBytes("x"), 0);
  EXPECT_EQ(status.code(), Code::kIo);
  EXPECT_THAT(status.message(), HasSubstr("No space left"));
}

TEST_F(FileTest, DescriptorsCloseOnce) {
  int raw = -1;
  {
    Result<UniqueFd> fd = ops_.Create(folder_ / "a", true);
    ASSERT_TRUE(fd.ok());
    raw = fd->get();
    UniqueFd other = std::move(*fd);
    EXPECT_FALSE(fd->valid());
    EXPECT_EQ(other.get(), raw);
    EXPECT_NE(::fcntl(raw, F_GETFD) & FD_CLOEXEC, 0);
  }
  EXPECT_EQ(::fcntl(raw, F_GETFD), -1);
}

TEST_F(FileTest, TheLockIsExclusiveWhileItLives) {
  const fs::path path = folder_ / "lock";
  std::optional<FileLock> lock;
  {
    Result<FileLock> first = FileLock::TryAcquire(path);
    ASSERT_TRUE(first.ok());
    lock = std::move(*first);
  }
  EXPECT_EQ(FileLock::TryAcquire(path).status().code(), Code::kRefused);
  lock.reset();
  EXPECT_TRUE(FileLock::TryAcquire(path).ok());
  EXPECT_TRUE(fs::exists(path));
  EXPECT_EQ(FileLock::TryAcquire(folder_ / "none/lock").status().code(), Code::kNotFound);
}

TEST_F(FileTest, TheLockOfADeadProcessIsFree) {
  const fs::path path = folder_ / "lock";
  int ready[2];
  ASSERT_EQ(::pipe(ready), 0);
  const pid_t child = ::fork();
  if (child == 0) {
    const Result<FileLock> lock = FileLock::TryAcquire(path);
    const char answer = lock.ok() ? 'y' : 'n';
    if (::write(ready[1], &answer, 1) == 1) ::pause();
    ::_exit(1);
  }
  ASSERT_GT(child, 0);
  char answer = 0;
  ASSERT_EQ(::read(ready[0], &answer, 1), 1);
  EXPECT_EQ(answer, 'y');
  EXPECT_EQ(FileLock::TryAcquire(path).status().code(), Code::kRefused);
  ASSERT_EQ(::kill(child, SIGKILL), 0);
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_TRUE(FileLock::TryAcquire(path).ok());
  ::close(ready[0]);
  ::close(ready[1]);
}

}  // namespace
}  // namespace xorbit
