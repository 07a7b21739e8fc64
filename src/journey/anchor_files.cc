#include "journey/anchor_files.h"

#include <algorithm>

#include "base/staged_folder.h"
#include "base/text.h"

namespace xorbit {
namespace {

constexpr uint64_t kPieceBytes = uint64_t{8} << 20;

Status FetchFile(const Runtime& runtime, Stream& stream, const std::string& key, const AnchorFile& file, const fs::path& path) {
  XORBIT_ASSIGN_OR_RETURN(const UniqueFd fd, runtime.file_ops->Create(path, /*exclusive=*/true));
  Sha256 hash;
  Buffer piece;
  for (uint64_t at = 0; at < file.byte_count; at += piece.size()) {
    piece.resize(std::min(kPieceBytes, file.byte_count - at));
    XORBIT_RETURN_IF_ERROR(stream.store().ReadInto(key, at, piece));
    hash.Update(piece);
    XORBIT_RETURN_IF_ERROR(runtime.file_ops->Pwrite(fd, piece, at).WithContext("'" + path.string() + "'"));
    if (runtime.progress != nullptr) runtime.progress->done += piece.size();
  }
  if (hash.Finish() != file.sha256) return CorruptError(key + ": does not match its SHA-256");
  return runtime.file_ops->Sync(fd).WithContext("'" + path.string() + "'");
}

}  // namespace

Result<AnchorFiles> AnchorFiles::Of(const Checkpoint& checkpoint) {
  AnchorFiles whole;
  for (const CheckpointFile& file : checkpoint.files()) {
    whole.files_.push_back({file.path.filename().string(), file.map.bytes()});
  }
  std::error_code error;
  fs::directory_iterator entries;
  if (checkpoint.is_folder()) entries = fs::directory_iterator(checkpoint.path(), error);
  for (; !error && entries != fs::directory_iterator(); entries.increment(error)) {
    const fs::path& path = entries->path();
    const std::string name = path.filename().string();
    std::error_code unreadable;  // a dangling link is no regular file
    if (!entries->is_regular_file(unreadable) || path.extension() == ".safetensors" || name.front() == '.') continue;
    XORBIT_ASSIGN_OR_RETURN(MappedFile file, MappedFile::Open(path));
    whole.others_.push_back(std::move(file));
    whole.files_.push_back({name, whole.others_.back().bytes()});
  }
  if (error) return ErrnoError("cannot list " + Quoted(checkpoint.path().string()), error.value());
  for (const AnchorSource& file : whole.files_) {
    if (IsAnchorFileName(file.name)) continue;
    return RefusedError("the file " + Quoted(file.name) + " of " + Quoted(checkpoint.path().string()) +
                        " cannot be stored under this name; a name is 1 to 128 letters, digits, '.', '_' and '-', does not " +
                        "begin with '.' and is not anchor.json: rename or remove the file");
  }
  return whole;
}

Result<FetchedAnchor> FetchFirstWhole(const Runtime& runtime, Stream& stream, std::span<const uint64_t> versions,
                                      const fs::path& folder) {
  Status first_failure = RefusedError("the store holds no whole version");
  for (size_t i = 0; i < versions.size(); ++i) {
    const Result<uint64_t> byte_count = FetchAnchor(runtime, stream, versions[i], folder);
    if (byte_count.ok()) return FetchedAnchor{versions[i], *byte_count};
    if (i == 0) first_failure = byte_count.status();
    if (byte_count.status().code() != Code::kNotFound && byte_count.status().code() != Code::kCorrupt) {
      return byte_count.status();
    }
  }
  return first_failure;
}

Result<uint64_t> FetchAnchor(const Runtime& runtime, Stream& stream, uint64_t version, const fs::path& folder) {
  XORBIT_ASSIGN_OR_RETURN(const StoredAnchor stored, ReadAnchor(stream, version));
  const Anchor& anchor = stored.anchor;
  uint64_t total_bytes = 0;
  for (const AnchorFile& file : anchor.files) total_bytes += file.byte_count;
  if (runtime.progress != nullptr) runtime.progress->Begin("fetch anchor", total_bytes);
  XORBIT_ASSIGN_OR_RETURN(StagedFolder staged, StagedFolder::Make(*runtime.file_ops, folder));
  for (const AnchorFile& file : anchor.files) {
    XORBIT_RETURN_IF_ERROR(FetchFile(runtime, stream, stored.folder + file.name, file, staged.path() / file.name));
  }
  XORBIT_ASSIGN_OR_RETURN(const Checkpoint checkpoint, Checkpoint::Open(staged.path()));
  const StateDigest state =
      runtime.backend->Scan(checkpoint.layout(), checkpoint.all_tensor_bytes(), ScanScope::kAll, runtime.threads);
  if (checkpoint.layout().digest() != stream.layout().digest() || state != anchor.state) {
    return CorruptError("the anchor of version " + std::to_string(version) + " does not hold that version");
  }
  XORBIT_RETURN_IF_ERROR(staged.Publish());
  return total_bytes;
}

}  // namespace xorbit
