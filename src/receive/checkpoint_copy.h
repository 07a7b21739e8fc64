// A changed copy of a checkpoint, which appears whole or not at all.
//
// No journal: until it is published the copy lies under a hidden name where nobody looks for it, so that a crash loses only
// work.
#pragma once

#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "base/staged_folder.h"
#include "receive/journal_format.h"
#include "receive/patch.h"
#include "receive/patch_window.h"
#include "tensor/checkpoint.h"

namespace xorbit {

// Make: a copy beside the target (its blocks shared with the source where the file system can) | Add every change | Publish.
// Add() is thread-safe. Destruction without Publish() removes the copy.
class CheckpointCopy final : public PatchSink {
 public:
  // Copies the checkpoint's files, and from a folder also its other regular files (configuration, tokenizer; links are
  // followed), but no sub-folders, and no .safetensors files that the checkpoint's index does not name: they hold weights of
  // another version. kExists if `target` is there. `ops` must outlive the copy; `source` is read here only.
  static Result<std::unique_ptr<CheckpointCopy>> Make(FileOps& ops, const Checkpoint& source, const fs::path& target);

  // PatchBlock::file_index counts in source.files(). kRefused if an old value is not what the copy holds; kCorrupt for a block
  // outside the files. After an error the copy is of no more use.
  Status Add(const PatchBlock& block) override;

  // Of the copy, before Publish: a checkpoint that can be opened once every change was added.
  fs::path path() const { return is_folder_ ? staged_.path() : staged_.path() / files_.front().name; }

  // fsync of all files, rename that does not replace (kExists), fsync of the folder. Once; no Add() may follow or run
  // meanwhile.
  Status Publish();

  // Names of the files that were not copied because they would not match the changed weights.
  const std::vector<std::string>& left_out() const { return left_out_; }

 private:
  CheckpointCopy(FileOps& ops, StagedFolder staged, fs::path target, bool is_folder)
      : ops_(ops), staged_(std::move(staged)), target_(std::move(target)), is_folder_(is_folder) {}
  Status CopyWeights(const Checkpoint& source);
  Status CopyOthers(const fs::path& folder);
  Result<UniqueFd> CopyFile(const fs::path& source, const std::string& name);

  FileOps& ops_;
  StagedFolder staged_;
  const fs::path target_;
  const bool is_folder_;
  std::vector<JournalFile> files_;  // of source.files(); name, size and header length are known
  std::vector<UniqueFd> fds_;       // likewise
  std::vector<std::string> left_out_;

  std::mutex mutex_;  // guards window_, and that interleaved blocks of one page are patched one after the other
  PatchWindow window_;
};

}  // namespace xorbit
