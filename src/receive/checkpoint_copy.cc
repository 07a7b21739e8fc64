#include "receive/checkpoint_copy.h"

#include <algorithm>

#include "receive/patch_check.h"

namespace xorbit {

Result<std::unique_ptr<CheckpointCopy>> CheckpointCopy::Make(FileOps& ops, const Checkpoint& source, const fs::path& target) {
  XORBIT_ASSIGN_OR_RETURN(StagedFolder staged, StagedFolder::Make(ops, target));
  const fs::path place = WithoutLastSlash(target);
  auto copy = std::unique_ptr<CheckpointCopy>(new CheckpointCopy(ops, std::move(staged), place, source.is_folder()));
  XORBIT_RETURN_IF_ERROR(copy->CopyWeights(source));
  if (source.is_folder()) XORBIT_RETURN_IF_ERROR(copy->CopyOthers(source.path()));
  return copy;
}

Status CheckpointCopy::CopyWeights(const Checkpoint& source) {
  for (const CheckpointFile& file : source.files()) {
    JournalFile description;
    description.name = file.path.filename().string();
    description.file_bytes = file.map.bytes().size();
    description.header_bytes = file.header_bytes;
    XORBIT_ASSIGN_OR_RETURN(UniqueFd fd, CopyFile(file.path, description.name));
    files_.push_back(std::move(description));
    fds_.push_back(std::move(fd));
  }
  return {};
}

Status CheckpointCopy::CopyOthers(const fs::path& folder) {
  std::error_code error;
  fs::directory_iterator entries(folder, error);
  for (; !error && entries != fs::directory_iterator(); entries.increment(error)) {
    const std::string name = entries->path().filename().string();
    const bool is_weights =
        std::any_of(files_.begin(), files_.end(), [&](const JournalFile& file) { return file.name == name; });
    std::error_code unreadable;  // a dangling link is no regular file
    if (is_weights || !entries->is_regular_file(unreadable)) continue;
    if (entries->path().extension() == ".safetensors") {
      left_out_.push_back(name);
      continue;
    }
    XORBIT_ASSIGN_OR_RETURN(const UniqueFd fd, CopyFile(entries->path(), name));
    XORBIT_RETURN_IF_ERROR(ops_.Sync(fd).WithContext("'" + name + "'"));
  }
  std::sort(left_out_.begin(), left_out_.end());
  if (error) return ErrnoError("cannot list '" + folder.string() + "'", error.value());
  return {};
}

Result<UniqueFd> CheckpointCopy::CopyFile(const fs::path& source, const std::string& name) {
  XORBIT_ASSIGN_OR_RETURN(const UniqueFd from, OpenForRead(source));
  XORBIT_ASSIGN_OR_RETURN(UniqueFd to, ops_.Create(staged_.path() / name, /*exclusive=*/true));
  std::error_code error;
  const uint64_t byte_count = fs::file_size(source, error);
  if (error) return ErrnoError("cannot read the size of '" + source.string() + "'", error.value());
  const Status copied = ops_.CopyContents(from, to, byte_count);
  if (!copied.ok()) return copied.WithContext("cannot copy '" + source.string() + "'");
  return to;
}

Status CheckpointCopy::Add(const PatchBlock& block) {
  XORBIT_RETURN_IF_ERROR(CheckPatchBlock(block, files_));
  const UniqueFd& fd = fds_[block.file_index];
  const std::lock_guard lock(mutex_);
  window_.Begin(PatchBegin(block));
  window_.Mark(block);
  Status status = window_.Read(fd);
  if (status.ok()) status = window_.Patch(block, PatchRule::kRedoFromOld);
  if (status.ok()) status = window_.Write(ops_, fd);
  return status.WithContext("'" + files_[block.file_index].name + "'");
}

Status CheckpointCopy::Publish() {
  for (size_t i = 0; i < fds_.size(); ++i) {
    XORBIT_RETURN_IF_ERROR(ops_.Sync(fds_[i]).WithContext("'" + files_[i].name + "'"));
  }
  if (is_folder_) return staged_.Publish();
  // A single file moves out of the hidden folder, which goes with this object.
  return staged_.PublishEntry(files_[0].name, target_);
}

}  // namespace xorbit
