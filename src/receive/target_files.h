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

// The file's size, inode and header hash now.
Result<JournalFile> DescribeFile(const fs::path& folder, const TargetFile& file);

}  // namespace xorbit
