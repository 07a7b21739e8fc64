// A whole version out of a store: anchor -> files, hashed on the way -> a folder that appears complete.
#include <algorithm>

#include "base/staged_folder.h"
#include "journey/store_journey.h"
#include "store/anchor.h"
#include "tensor/checkpoint.h"

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
    XORBIT_RETURN_IF_ERROR(runtime.file_ops->Pwrite(fd, piece, at));
    if (runtime.progress != nullptr) runtime.progress->done += piece.size();
  }
  if (hash.Finish() != file.sha256) return CorruptError(key + ": does not match its SHA-256");
  return runtime.file_ops->Sync(fd);
}

}  // namespace

Result<uint64_t> FetchAnchor(const Runtime& runtime, Stream& stream, uint64_t version, const fs::path& folder) {
  XORBIT_ASSIGN_OR_RETURN(const Anchor anchor, ReadAnchor(stream, version));
  uint64_t total_bytes = 0;
  for (const AnchorFile& file : anchor.files) total_bytes += file.byte_count;
  if (runtime.progress != nullptr) runtime.progress->Begin("fetch anchor", total_bytes);
  XORBIT_ASSIGN_OR_RETURN(StagedFolder staged, StagedFolder::Make(*runtime.file_ops, folder));
  for (const AnchorFile& file : anchor.files) {
    XORBIT_RETURN_IF_ERROR(FetchFile(runtime, stream, AnchorFolder(stream.info().stream_id, version) + file.name, file,
                                     staged.path() / file.name));
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

Result<std::optional<uint64_t>> VersionOfState(Stream& stream, const StateDigest& state) {
  XORBIT_ASSIGN_OR_RETURN(const uint64_t newest, stream.Newest());
  for (uint64_t version = newest + 1; version-- > 0;) {
    XORBIT_ASSIGN_OR_RETURN(const auto record, stream.Record(version));
    if (record && record->committed() && record->target == state) return std::optional(version);
  }
  return std::optional<uint64_t>();
}

}  // namespace xorbit
