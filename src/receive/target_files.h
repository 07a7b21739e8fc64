// The files of a checkpoint that shall be changed in place: described once when a journal is begun, compared when it is
// replayed.
#pragma once

#include <string>
#include <vector>

#include "base/file.h"
#include "receive/journal_format.h"
#include "tensor/checkpoint.h"

namespace xorbit {

// A file of the checkpoint's folder. No change may lie before header_bytes.
struct TargetFile {
  std::string name;
  uint64_t header_bytes = 0;
};

// In the order of checkpoint.files(), so that PatchBlock::file_index means the same.
std::vector<TargetFile> TargetFilesOf(const Checkpoint& checkpoint);

// kRefused if the file is a symbolic link or has several hard links (in a download cache or a linked copy, the same bytes serve
// others under other names), or is not a regular file.
Status CheckSoleName(const fs::path& path);

// What changes about a file when somebody writes to it, cuts it off, or puts another in its place.
struct FileStamp {
  uint64_t device = 0;
  uint64_t inode = 0;
  uint64_t file_bytes = 0;
  int64_t modified_ns = 0;
  int64_t changed_ns = 0;

  friend bool operator==(const FileStamp&, const FileStamp&) = default;
};
// Of all files of the checkpoint, in their order. Errors as of CheckSoleName.
Result<std::vector<FileStamp>> StampFiles(const Checkpoint& checkpoint);

// The file's size, inode and header hash now.
Result<JournalFile> DescribeFile(const fs::path& folder, const TargetFile& file);

}  // namespace xorbit
