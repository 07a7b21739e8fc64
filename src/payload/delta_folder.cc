#include "payload/delta_folder.h"

#include "base/parallel.h"
#include "base/staged_folder.h"
#include "tensor/ownership.h"

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
                     const std::vector<Payload>& payloads) {
  const fs::path layouts = folder / kLayoutsName;
  XORBIT_RETURN_IF_ERROR(ops.MakeFolder(layouts));
  XORBIT_RETURN_IF_ERROR(
      WriteWholeFile(ops, layouts / LayoutFileName(manifest.layout_digest), AsBytes(WriteLayoutJson(layout))));
  XORBIT_RETURN_IF_ERROR(ops.SyncFolder(layouts));
  for (size_t i = 0; i < payloads.size(); ++i) {
    XORBIT_RETURN_IF_ERROR(WritePayloadFile(ops, folder / manifest.owners[i].file, payloads[i]));
  }
  return WriteWholeFile(ops, folder / kManifestName, AsBytes(WriteManifest(manifest)));
}

Status CheckFileBytes(const ManifestOwner& owner, ConstBytes bytes) {
  if (Sha256Of(bytes.first(owner.head_byte_count)) != owner.head_sha256)
    return CorruptError("its head does not match its SHA-256");
  if (Sha256Of(bytes) != owner.sha256) return CorruptError("does not match its SHA-256");
  return {};
}

// What the manifest says about a payload must be what the payload says itself.
Status CheckAgainstManifest(const Manifest& manifest, uint32_t owner_index, const PayloadView& payload) {
  const ManifestOwner& owner = manifest.owners[owner_index];
  const PayloadHeader& header = payload.header;
  if (header.owner_index != owner_index || header.owner_count != manifest.owners.size())
    return CorruptError("belongs to another owner");
  if (payload.info.codec != manifest.codec) return CorruptError("uses another codec than the manifest says");
  // A payload without changes has nothing that could lack digests.
  if (payload.has_digests() != manifest.has_digests && header.change_count != 0)
    return CorruptError("disagrees with the manifest on digests");
  if (header.head_bytes != owner.head_byte_count) return CorruptError("has a head of another length than the manifest says");
  if (header.change_count != owner.change_count) return CorruptError("has another change count than the manifest says");
  if (payload.change() != owner.change) return CorruptError("has another change digest than the manifest says");
  return {};
}

Status MapFiles(Delta* delta, const OpenOptions& options) {
  for (const ManifestOwner& owner : delta->manifest.owners) {
    XORBIT_ASSIGN_OR_RETURN(MappedFile file, MappedFile::Open(delta->folder / owner.file));
    if (file.bytes().size() != owner.byte_count) {
      return CorruptError((delta->folder / owner.file).string() + ": has " + std::to_string(file.bytes().size()) +
                          " bytes, but the manifest says " + std::to_string(owner.byte_count));
    }
    delta->total_file_bytes += owner.byte_count;
    delta->files.push_back(std::move(file));
  }
  if (!options.verify_hashes) return {};
  return ParallelFor(options.threads, delta->files.size(), [&](uint64_t i) {
    const ManifestOwner& owner = delta->manifest.owners[i];
    return CheckFileBytes(owner, delta->files[i].bytes()).WithContext((delta->folder / owner.file).string());
  });
}

Status ParsePayloads(Delta* delta, const OpenOptions& options) {
  for (uint32_t i = 0; i < delta->files.size(); ++i) {
    const std::string where = (delta->folder / delta->manifest.owners[i].file).string();
    auto payload = ParsePayload(delta->layout, delta->files[i].bytes());
    if (!payload.ok()) return payload.status().WithContext(where);
    XORBIT_RETURN_IF_ERROR(CheckAgainstManifest(delta->manifest, i, *payload).WithContext(where));
    if (options.verify_hashes) XORBIT_RETURN_IF_ERROR(VerifyChunks(*payload, options.threads).WithContext(where));
    delta->payloads.push_back(std::move(payload).value());
  }
  std::vector<const SegmentMap*> segments;
  for (const PayloadView& payload : delta->payloads) {
    for (const PayloadSegment& segment : payload.segments) segments.push_back(&segment.map);
  }
  return ProveCoverage(delta->layout, segments).WithContext(delta->folder.string());
}

}  // namespace

Status WriteDeltaFolder(FileOps& ops, const fs::path& folder, const Layout& layout, const Manifest& manifest,
                        const std::vector<Payload>& payloads) {
  assert(manifest.owners.size() == payloads.size() && manifest.layout_digest == layout.digest());
  XORBIT_ASSIGN_OR_RETURN(StagedFolder staged, StagedFolder::Make(ops, folder));
  XORBIT_RETURN_IF_ERROR(WriteContents(ops, staged.path(), layout, manifest, payloads));
  return staged.Publish();  // the delta exists from here on
}

Result<Delta> OpenDeltaFolder(const fs::path& folder, const OpenOptions& options) {
  Delta delta;
  delta.folder = folder;
  const fs::path manifest_path = folder / kManifestName;
  auto manifest_bytes = ReadWholeFile(manifest_path, kMaxManifestBytes);
  if (!manifest_bytes.ok()) {
    if (manifest_bytes.status().code() != Code::kNotFound) return manifest_bytes.status();
    return NotFoundError("'" + folder.string() + "' is not a delta: it has no manifest.json");
  }
  delta.total_file_bytes = manifest_bytes->size();
  auto manifest = ParseManifest(AsText(*manifest_bytes));
  if (!manifest.ok()) return manifest.status().WithContext(manifest_path.string());
  delta.manifest = std::move(manifest).value();

  const fs::path layout_path = folder / kLayoutsName / LayoutFileName(delta.manifest.layout_digest);
  XORBIT_ASSIGN_OR_RETURN(const Buffer layout_bytes, ReadWholeFile(layout_path, kMaxLayoutBytes));
  auto layout = ParseLayoutJson(AsText(layout_bytes), delta.manifest.layout_digest);
  if (!layout.ok()) return layout.status().WithContext(layout_path.string());
  delta.layout = std::move(layout).value();
  if (delta.manifest.total_bytes != delta.layout.total_bytes()) {
    return CorruptError(manifest_path.string() + ": field 'total_bytes' is not what the layout adds up to");
  }

  XORBIT_RETURN_IF_ERROR(MapFiles(&delta, options));
  XORBIT_RETURN_IF_ERROR(ParsePayloads(&delta, options));
  return delta;
}

}  // namespace xorbit
