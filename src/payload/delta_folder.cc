#include "payload/delta_folder.h"

#include <cassert>
#include <functional>

#include "base/staged_folder.h"
#include "base/text.h"

namespace xorbit {
namespace {

constexpr std::string_view kManifestName = "manifest.json";
constexpr std::string_view kLayoutsName = "layouts";

fs::path LayoutFileName(const Sha256Digest& digest) { return ToHex(digest) + ".json"; }

Status WritePayloadFile(FileOps& ops, const fs::path& path, const Payload& payload) {
  XORBIT_ASSIGN_OR_RETURN(const UniqueFd fd, ops.Create(path, /*exclusive=*/true));
  uint64_t offset = payload.head.size();
  Status status = ops.Pwrite(fd, payload.head, 0);
  for (size_t i = 0; i < payload.body.size() && status.ok(); ++i) {
    status = ops.Pwrite(fd, payload.body[i], offset);
    offset += payload.body[i].size();
  }
  if (status.ok()) status = ops.Sync(fd);
  return status.WithContext(path.string());
}

// Fills the folder and syncs all but the folder itself.
Status WriteContents(FileOps& ops, const fs::path& folder, const Layout& layout, const Manifest& manifest,
                     const std::function<Status(const fs::path& path, size_t owner)>& write_payload) {
  const fs::path layouts = folder / kLayoutsName;
  XORBIT_RETURN_IF_ERROR(ops.MakeFolder(layouts));
  XORBIT_RETURN_IF_ERROR(
      WriteWholeFile(ops, layouts / LayoutFileName(manifest.layout_digest), AsBytes(WriteLayoutJson(layout))));
  XORBIT_RETURN_IF_ERROR(ops.SyncFolder(layouts));
  for (size_t i = 0; i < manifest.owners.size(); ++i) {
    XORBIT_RETURN_IF_ERROR(write_payload(folder / manifest.owners[i].file, i));
  }
  return WriteWholeFile(ops, folder / kManifestName, AsBytes(WriteManifest(manifest)));
}

}  // namespace

Status WriteDeltaFolder(FileOps& ops, const fs::path& folder, const Layout& layout, const Manifest& manifest,
                        const std::vector<Payload>& payloads) {
  assert(manifest.owners.size() == payloads.size() && manifest.layout_digest == layout.digest());
  XORBIT_ASSIGN_OR_RETURN(StagedFolder staged, StagedFolder::Make(ops, folder));
  const auto write_payload = [&](const fs::path& path, size_t owner) { return WritePayloadFile(ops, path, payloads[owner]); };
  XORBIT_RETURN_IF_ERROR(WriteContents(ops, staged.path(), layout, manifest, write_payload));
  return staged.Publish();  // the delta exists from here on
}

Status WriteDeltaFiles(FileOps& ops, const fs::path& folder, const Delta& delta) {
  const auto write_payload = [&](const fs::path& path, size_t owner) {
    return WriteWholeFile(ops, path, delta.files[owner].bytes());
  };
  return WriteContents(ops, folder, delta.layout, delta.manifest, write_payload);
}

Result<Delta> OpenDeltaFolder(const fs::path& folder, const OpenOptions& options) {
  const fs::path manifest_path = folder / kManifestName;
  auto manifest_bytes = ReadWholeFile(manifest_path, kMaxManifestBytes);
  if (!manifest_bytes.ok()) {
    if (manifest_bytes.status().code() != Code::kNotFound) return manifest_bytes.status();
    return NotFoundError("'" + folder.string() + "' is not a delta: it has no manifest.json");
  }
  auto manifest = ParseManifest(AsText(*manifest_bytes));
  if (!manifest.ok()) return manifest.status().WithContext(manifest_path.string());
  const fs::path layout_path = folder / kLayoutsName / LayoutFileName(manifest->layout_digest);
  XORBIT_ASSIGN_OR_RETURN(const Buffer layout_bytes, ReadWholeFile(layout_path, kMaxLayoutBytes));
  auto layout = ParseLayoutJson(AsText(layout_bytes), manifest->layout_digest);
  if (!layout.ok()) return layout.status().WithContext(layout_path.string());
  std::vector<PayloadBytes> files;
  for (const ManifestOwner& owner : manifest->owners) {
    XORBIT_ASSIGN_OR_RETURN(MappedFile file, MappedFile::Open(folder / owner.file));
    files.emplace_back(std::move(file));
  }
  XORBIT_ASSIGN_OR_RETURN(Delta delta,
                          OpenDelta(folder, std::move(manifest).value(), std::move(layout).value(), std::move(files), options));
  delta.total_file_bytes += manifest_bytes->size();
  return delta;
}

}  // namespace xorbit
