#include "base/file.h"

#include <fcntl.h>
#include <linux/fs.h>
#include <sys/file.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <utility>

#include "base/text.h"

namespace xorbit {
namespace {

Status FileError(std::string_view action, const fs::path& path) {
  return ErrnoError("cannot " + std::string(action) + " '" + path.string() + "'", errno);
}

Result<UniqueFd> OpenFile(const fs::path& path, int flags, std::string_view action) {
  if (path.native().find('\0') != std::string::npos) {  // the system would take what stands before it
    return UsageError("cannot " + std::string(action) + " " + Quoted(path.string()) + ": a path has no zero bytes");
  }
  UniqueFd fd(::open(path.c_str(), flags | O_CLOEXEC, 0644));
  if (!fd.valid()) return FileError(action, path);
  return fd;
}

Result<uint64_t> RegularFileSize(const UniqueFd& fd, const fs::path& path) {
  struct stat info {};
  if (::fstat(fd.get(), &info) != 0) return FileError("read the size of", path);
  if (!S_ISREG(info.st_mode)) return RefusedError("'" + path.string() + "' is not a regular file");
  return static_cast<uint64_t>(info.st_size);
}

// copy_file_range(2) until `byte_count` bytes are there or the file system declines; how many there are.
uint64_t CopyInKernel(const UniqueFd& source, const UniqueFd& target, uint64_t byte_count) {
  uint64_t done = 0;
  while (done < byte_count) {
    off64_t from = static_cast<off64_t>(done);
    off64_t to = from;
    const ssize_t copied = ::copy_file_range(source.get(), &from, target.get(), &to, byte_count - done, 0);
    if (copied < 0 && errno == EINTR) continue;
    if (copied <= 0) break;
    done += static_cast<uint64_t>(copied);
  }
  return done;
}

class Posix final : public FileOps {
 public:
  Result<UniqueFd> Create(const fs::path& path, bool exclusive) override {
    return OpenFile(path, O_RDWR | O_CREAT | (exclusive ? O_EXCL : O_TRUNC), "create");
  }

  Result<UniqueFd> OpenForWrite(const fs::path& path) override { return OpenFile(path, O_RDWR, "open for writing"); }

  Status Pwrite(const UniqueFd& fd, ConstBytes bytes, uint64_t offset_bytes) override {
    while (!bytes.empty()) {
      const ssize_t written = ::pwrite(fd.get(), bytes.data(), bytes.size(), static_cast<off_t>(offset_bytes));
      if (written < 0 && errno == EINTR) continue;
      if (written < 0) return ErrnoError("cannot write", errno);
      if (written == 0) return IoError("cannot write: the file system took no bytes");
      bytes = bytes.subspan(static_cast<size_t>(written));
      offset_bytes += static_cast<uint64_t>(written);
    }
    return {};
  }

  Status Truncate(const UniqueFd& fd, uint64_t byte_count) override {
    if (::ftruncate(fd.get(), static_cast<off_t>(byte_count)) != 0) return ErrnoError("cannot set a file's size", errno);
    return {};
  }

  Status CopyContents(const UniqueFd& source, const UniqueFd& target, uint64_t byte_count) override {
    struct stat info {};
    const bool whole = ::fstat(source.get(), &info) == 0 && static_cast<uint64_t>(info.st_size) == byte_count;
    if (whole && ::ioctl(target.get(), FICLONE, source.get()) == 0) return {};
    // What the kernel declines to copy goes through memory, where a real error (a full disk) gets its name.
    uint64_t done = CopyInKernel(source, target, byte_count);
    Buffer buffer(std::min<uint64_t>(byte_count - done, 1 << 20));
    while (done < byte_count) {
      const MutableBytes piece = MutableBytes(buffer).first(std::min<uint64_t>(buffer.size(), byte_count - done));
      XORBIT_RETURN_IF_ERROR(ReadAt(source, piece, done));
      XORBIT_RETURN_IF_ERROR(Pwrite(target, piece, done));
      done += piece.size();
    }
    return {};
  }

  // Without the flags that wait: those would report the disk's errors here, and fsync would then not.
  void StartWriteBack(const UniqueFd& fd, uint64_t offset_bytes, uint64_t byte_count) override {
    static_cast<void>(
        ::sync_file_range(fd.get(), static_cast<off_t>(offset_bytes), static_cast<off_t>(byte_count), SYNC_FILE_RANGE_WRITE));
  }

  Status Sync(const UniqueFd& fd) override {
    if (::fsync(fd.get()) != 0) return ErrnoError("cannot fsync", errno);
    return {};
  }

  Status SyncFolder(const fs::path& folder) override {
    if (folder.empty()) return SyncFolder(".");
    XORBIT_ASSIGN_OR_RETURN(const UniqueFd fd, OpenFile(folder, O_RDONLY | O_DIRECTORY, "open folder"));
    if (::fsync(fd.get()) != 0) return FileError("fsync folder", folder);
    return {};
  }

  Status MakeFolder(const fs::path& folder) override {
    if (::mkdir(folder.c_str(), 0755) != 0) return FileError("create folder", folder);
    return {};
  }

  Status Rename(const fs::path& from, const fs::path& to) override {
    if (::rename(from.c_str(), to.c_str()) != 0) return FileError("rename to", to);
    return {};
  }

  Status RenameNoReplace(const fs::path& from, const fs::path& to) override {
    if (::renameat2(AT_FDCWD, from.c_str(), AT_FDCWD, to.c_str(), RENAME_NOREPLACE) != 0) return FileError("create", to);
    return {};
  }

  Status Link(const fs::path& from, const fs::path& to) override {
    if (::link(from.c_str(), to.c_str()) != 0) return FileError("create", to);
    return {};
  }

  Status Unlink(const fs::path& path) override {
    if (::unlink(path.c_str()) != 0) return FileError("remove", path);
    return {};
  }
};

}  // namespace

UniqueFd& UniqueFd::operator=(UniqueFd&& other) noexcept {
  if (this != &other) {
    Reset();
    fd_ = other.Release();
  }
  return *this;
}

int UniqueFd::Release() { return std::exchange(fd_, -1); }

void UniqueFd::Reset() {
  if (fd_ >= 0) ::close(fd_);
  fd_ = -1;
}

MappedFile::~MappedFile() {
  if (!bytes_.empty()) ::munmap(const_cast<uint8_t*>(bytes_.data()), bytes_.size());
}

MappedFile::MappedFile(MappedFile&& other) noexcept : bytes_(std::exchange(other.bytes_, {})) {}

MappedFile& MappedFile::operator=(MappedFile&& other) noexcept {
  std::swap(bytes_, other.bytes_);
  return *this;
}

Result<MappedFile> MappedFile::Open(const fs::path& path) {
  XORBIT_ASSIGN_OR_RETURN(const UniqueFd fd, OpenForRead(path));
  XORBIT_ASSIGN_OR_RETURN(const uint64_t byte_count, RegularFileSize(fd, path));
  MappedFile file;
  if (byte_count == 0) return file;
  void* address = ::mmap(nullptr, byte_count, PROT_READ, MAP_SHARED, fd.get(), 0);
  if (address == MAP_FAILED) return FileError("map", path);
  file.bytes_ = {static_cast<const uint8_t*>(address), byte_count};
  return file;
}

Result<UniqueFd> OpenForRead(const fs::path& path) {
  // O_NONBLOCK: a named pipe is refused below instead of waited for; it means nothing for regular files.
  XORBIT_ASSIGN_OR_RETURN(UniqueFd fd, OpenFile(path, O_RDONLY | O_NONBLOCK, "open"));
  XORBIT_RETURN_IF_ERROR(RegularFileSize(fd, path).status());
  return fd;
}

Status ReadAt(const UniqueFd& fd, MutableBytes bytes, uint64_t offset_bytes) {
  while (!bytes.empty()) {
    const ssize_t got = ::pread(fd.get(), bytes.data(), bytes.size(), static_cast<off_t>(offset_bytes));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return ErrnoError("cannot read", errno);
    if (got == 0) return CorruptError("the file ends before byte " + std::to_string(offset_bytes + bytes.size()));
    bytes = bytes.subspan(static_cast<size_t>(got));
    offset_bytes += static_cast<uint64_t>(got);
  }
  return {};
}

Result<Buffer> ReadWholeFile(const fs::path& path, uint64_t limit_bytes) {
  XORBIT_ASSIGN_OR_RETURN(const UniqueFd fd, OpenForRead(path));
  XORBIT_ASSIGN_OR_RETURN(const uint64_t byte_count, RegularFileSize(fd, path));
  if (byte_count > limit_bytes) {
    return CorruptError("'" + path.string() + "' is larger than the " + std::to_string(limit_bytes) + " bytes allowed");
  }
  Buffer bytes(byte_count);
  XORBIT_RETURN_IF_ERROR(ReadAt(fd, bytes, 0).WithContext("'" + path.string() + "'"));
  return bytes;
}

FileOps& PosixFileOps() {
  static Posix ops;
  return ops;
}

Status WriteWholeFile(FileOps& ops, const fs::path& path, ConstBytes bytes) {
  XORBIT_ASSIGN_OR_RETURN(const UniqueFd fd, ops.Create(path, /*exclusive=*/true));
  Status status = ops.Pwrite(fd, bytes, 0);
  if (status.ok()) status = ops.Sync(fd);
  return status.WithContext(path.string());
}

Result<FileLock> FileLock::TryAcquire(const fs::path& lock_path) {
  FileLock lock;
  lock.path_ = lock_path;
  for (;;) {
    XORBIT_ASSIGN_OR_RETURN(lock.fd_, OpenFile(lock_path, O_RDWR | O_CREAT, "open lock"));
    if (::flock(lock.fd_.get(), LOCK_EX | LOCK_NB) != 0) {
      if (errno == EWOULDBLOCK) {
        return RefusedError(
            "another xorbit process has this checkpoint, to change it or as a server on the disk; wait for it to end");
      }
      return FileError("lock", lock_path);
    }
    if (lock.IsNamed()) return lock;
  }
}

bool FileLock::IsNamed() const {
  struct stat locked {};
  struct stat named {};
  if (::fstat(fd_.get(), &locked) != 0 || ::stat(path_.c_str(), &named) != 0) return false;
  return locked.st_dev == named.st_dev && locked.st_ino == named.st_ino;
}

Status FileLock::RemoveFile() {
  assert(held());
  return ::unlink(path_.c_str()) == 0 ? Status() : FileError("remove", path_);
}

}  // namespace xorbit
