// A FileOps that does everything for real: tests derive from it to fail, count or watch single calls.
#pragma once

#include "base/file.h"

namespace xorbit {

class ForwardingFileOps : public FileOps {
 public:
  Result<UniqueFd> Create(const fs::path& path, bool exclusive) override { return real_.Create(path, exclusive); }
  Result<UniqueFd> OpenForWrite(const fs::path& path) override { return real_.OpenForWrite(path); }
  Status Pwrite(const UniqueFd& fd, ConstBytes bytes, uint64_t offset_bytes) override {
    return real_.Pwrite(fd, bytes, offset_bytes);
  }
  Status Truncate(const UniqueFd& fd, uint64_t byte_count) override { return real_.Truncate(fd, byte_count); }
  Status CopyContents(const UniqueFd& source, const UniqueFd& target, uint64_t byte_count) override {
    return real_.CopyContents(source, target, byte_count);
  }
  void StartWriteBack(const UniqueFd& fd, uint64_t offset_bytes, uint64_t byte_count) override {
    real_.StartWriteBack(fd, offset_bytes, byte_count);
  }
  Status Sync(const UniqueFd& fd) override { return real_.Sync(fd); }
  Status SyncFolder(const fs::path& folder) override { return real_.SyncFolder(folder); }
  Status MakeFolder(const fs::path& folder) override { return real_.MakeFolder(folder); }
  Status Rename(const fs::path& from, const fs::path& to) override { return real_.Rename(from, to); }
  Status RenameNoReplace(const fs::path& from, const fs::path& to) override { return real_.RenameNoReplace(from, to); }
  Status Link(const fs::path& from, const fs::path& to) override { return real_.Link(from, to); }
  Status Unlink(const fs::path& path) override { return real_.Unlink(path); }

 private:
  FileOps& real_ = PosixFileOps();
};

}  // namespace xorbit
