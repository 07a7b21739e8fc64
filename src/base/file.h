// Files: owning descriptors, read-only maps, and the few mutating calls that crash safety depends on, behind one interface so
// that tests can record them, fail them, and replay what a power cut would have left.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>

#include "base/bytes.h"

namespace xorbit {

namespace fs = std::filesystem;

// The same path without a slash at its end: "x/" names the folder "x", and its parent is not itself.
inline fs::path WithoutLastSlash(const fs::path& path) { return path.has_filename() ? path : path.parent_path(); }

// Closes on destruction. Movable, not copyable.
class UniqueFd {
 public:
  UniqueFd() = default;
  explicit UniqueFd(int fd) : fd_(fd) {}
  ~UniqueFd() { Reset(); }
  UniqueFd(UniqueFd&& other) noexcept : fd_(other.Release()) {}
  UniqueFd& operator=(UniqueFd&& other) noexcept;
  int get() const { return fd_; }
  bool valid() const { return fd_ >= 0; }
  int Release();
  void Reset();

 private:
  int fd_ = -1;
};

// A file mapped read-only. The pages belong to the page cache: they cost no anonymous memory. A file that another process
// truncates while it is mapped raises SIGBUS; checkpoints and deltas are not to be truncated while xorbit reads them.
class MappedFile {
 public:
  MappedFile() = default;
  ~MappedFile();
  MappedFile(MappedFile&& other) noexcept;
  MappedFile& operator=(MappedFile&& other) noexcept;
  // kNotFound, kIo, or kRefused if `path` is not a regular file.
  static Result<MappedFile> Open(const fs::path& path);
  ConstBytes bytes() const { return bytes_; }

 private:
  ConstBytes bytes_;
};

// An existing regular file, for reading. kNotFound, kIo, or kRefused if it is something else.
Result<UniqueFd> OpenForRead(const fs::path& path);

// Fills all of `bytes` from the file's bytes at `offset_bytes`; kCorrupt if the file ends before.
Status ReadAt(const UniqueFd& fd, MutableBytes bytes, uint64_t offset_bytes);

// The whole file, if it is at most `limit_bytes`; kCorrupt "is larger than" otherwise.
Result<Buffer> ReadWholeFile(const fs::path& path, uint64_t limit_bytes);

// Mutations. Every method is one durable-or-not step of a crash-safety argument; none retries or hides an error. ENOSPC comes
// back as kIo with "No space left" in the message. Thread-safe for different files, and for writes to different bytes of one.
class FileOps {
 public:
  FileOps() = default;
  FileOps(const FileOps&) = delete;
  FileOps& operator=(const FileOps&) = delete;
  virtual ~FileOps() = default;

  // Creates the file, or with `exclusive` fails with kExists; opened for reading and writing.
  virtual Result<UniqueFd> Create(const fs::path& path, bool exclusive) = 0;
  virtual Result<UniqueFd> OpenForWrite(const fs::path& path) = 0;  // must exist
  virtual Status Pwrite(const UniqueFd& fd, ConstBytes bytes, uint64_t offset_bytes) = 0;
  virtual Status Truncate(const UniqueFd& fd, uint64_t byte_count) = 0;
  // Makes the empty file `target` hold the first `byte_count` bytes of `source`: shared blocks where the file system has them
  // (reflink), else a copy inside the kernel, else through memory.
  virtual Status CopyContents(const UniqueFd& source, const UniqueFd& target, uint64_t byte_count) = 0;
  // Asks for these bytes to be on their way to the disk, so that Sync() has less to wait for. Promises nothing; an error of the
  // disk is kept for Sync().
  virtual void StartWriteBack(const UniqueFd& fd, uint64_t offset_bytes, uint64_t byte_count) = 0;
  virtual Status Sync(const UniqueFd& fd) = 0;            // fsync
  virtual Status SyncFolder(const fs::path& folder) = 0;  // fsync of a directory; "", the parent of a bare name, is "."
  virtual Status MakeFolder(const fs::path& folder) = 0;  // kExists if it is there
  virtual Status Rename(const fs::path& from, const fs::path& to) = 0;           // replaces
  virtual Status RenameNoReplace(const fs::path& from, const fs::path& to) = 0;  // kExists if `to` is there
  // One more name for the file `from`; kExists if `to` is there. On a network file system an error may follow success.
  virtual Status Link(const fs::path& from, const fs::path& to) = 0;
  virtual Status Unlink(const fs::path& path) = 0;
};

// The operating system's calls. Static lifetime.
FileOps& PosixFileOps();

// Creates `path` (kExists if it is there), writes all of `bytes`, fsyncs the file. Not the folder. After a later error part of
// the file may be there.
Status WriteWholeFile(FileOps& ops, const fs::path& path, ConstBytes bytes);

// Exclusive advisory lock (flock) on a lock file, held until destruction; the file stays unless it is removed. kRefused if
// another process has it, kNotFound if there is no folder for the file.
class FileLock {
 public:
  static Result<FileLock> TryAcquire(const fs::path& lock_path);
  bool held() const { return fd_.valid(); }
  // Whether the lock file is still found by its name: if not, whoever goes by the name does not see this lock.
  bool IsNamed() const;
  // Removes the file while the lock is held. Who has opened it meanwhile finds, once it has the lock, that the name is gone,
  // and opens it again: there are never two holders.
  Status RemoveFile();

 private:
  UniqueFd fd_;
  fs::path path_;
};

}  // namespace xorbit
