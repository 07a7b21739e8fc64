#include "receive/target_files.h"

#include <sys/stat.h>

#include <algorithm>
#include <cerrno>

namespace xorbit {
namespace {

Result<Sha256Digest> HashHeader(const UniqueFd& fd, uint64_t header_bytes) {
  Sha256 hash;
  Buffer buffer(std::min<uint64_t>(header_bytes, 1 << 20));
  for (uint64_t done = 0; done < header_bytes;) {
    const MutableBytes piece = MutableBytes(buffer).first(std::min<uint64_t>(buffer.size(), header_bytes - done));
    XORBIT_RETURN_IF_ERROR(ReadAt(fd, piece, done));
    hash.Update(piece);
    done += piece.size();
  }
  return hash.Finish();
}

int64_t NanosecondsOf(const timespec& time) { return int64_t{time.tv_sec} * 1'000'000'000 + time.tv_nsec; }

}  // namespace

std::vector<TargetFile> TargetFilesOf(const Checkpoint& checkpoint) {
  std::vector<TargetFile> files;
  for (const CheckpointFile& file : checkpoint.files()) files.push_back({file.path.filename().string(), file.header_bytes});
  return files;
}

Status CheckSoleName(const fs::path& path) {
  struct stat info {};
  if (::lstat(path.c_str(), &info) != 0) return ErrnoError("cannot look at '" + path.string() + "'", errno);
  if (S_ISREG(info.st_mode) && info.st_nlink == 1) return {};
  if (S_ISREG(info.st_mode) || S_ISLNK(info.st_mode)) {
    return RefusedError("'" + path.string() + "' is a link: its bytes belong to other names too, which would change with it; " +
                        "write a changed copy with -o, or copy the file first");
  }
  return RefusedError("'" + path.string() + "' is not a regular file");
}

Result<std::vector<FileStamp>> StampFiles(const Checkpoint& checkpoint) {
  std::vector<FileStamp> stamps;
  for (const CheckpointFile& file : checkpoint.files()) {
    XORBIT_RETURN_IF_ERROR(CheckSoleName(file.path));
    struct stat info {};
    if (::lstat(file.path.c_str(), &info) != 0) return ErrnoError("cannot look at '" + file.path.string() + "'", errno);
    stamps.push_back({info.st_dev, info.st_ino, static_cast<uint64_t>(info.st_size), NanosecondsOf(info.st_mtim),
                      NanosecondsOf(info.st_ctim)});
  }
  return stamps;
}

Result<JournalFile> DescribeFile(const fs::path& folder, const TargetFile& file) {
  const fs::path path = folder / file.name;
  XORBIT_ASSIGN_OR_RETURN(const UniqueFd fd, OpenForRead(path));
  struct stat info {};
  if (::fstat(fd.get(), &info) != 0) return ErrnoError("cannot look at '" + path.string() + "'", errno);
  JournalFile description;
  description.name = file.name;
  description.file_bytes = static_cast<uint64_t>(info.st_size);
  description.inode = info.st_ino;
  description.header_bytes = file.header_bytes;
  Result<Sha256Digest> header = HashHeader(fd, file.header_bytes);
  if (!header.ok()) return header.status().WithContext("'" + path.string() + "'");
  description.header_sha256 = *header;
  return description;
}

}  // namespace xorbit
