#include "payload/delta.h"

#include <cassert>
#include <string>
#include <utility>

#include "base/parallel.h"
#include "tensor/ownership.h"

namespace xorbit {
namespace {

Status CheckFileBytes(const ManifestOwner& owner, ConstBytes bytes, const OpenOptions& options) {
  const uint64_t expected = options.heads_only ? owner.head_byte_count : owner.byte_count;
  if (bytes.size() != expected) {
    return CorruptError("has " + std::to_string(bytes.size()) + " bytes, but the manifest says " + std::to_string(expected));
  }
  if (!options.verify_hashes) return {};
  if (Sha256Of(bytes.first(owner.head_byte_count)) != owner.head_sha256)
    return CorruptError("its head does not match its SHA-256");
  if (!options.heads_only && Sha256Of(bytes) != owner.sha256) return CorruptError("does not match its SHA-256");
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

Status ParsePayloads(Delta* delta, const OpenOptions& options) {
  for (uint32_t i = 0; i < delta->files.size(); ++i) {
    const std::string where = (delta->folder / delta->manifest.owners[i].file).string();
    const ConstBytes bytes = delta->files[i].bytes();
    auto payload = options.heads_only ? ParsePayloadHead(delta->layout, bytes, delta->manifest.owners[i].byte_count)
                                      : ParsePayload(delta->layout, bytes);
    if (!payload.ok()) return payload.status().WithContext(where);
    XORBIT_RETURN_IF_ERROR(CheckAgainstManifest(delta->manifest, i, *payload).WithContext(where));
    if (options.verify_hashes && !options.heads_only)
      XORBIT_RETURN_IF_ERROR(VerifyChunks(*payload, options.threads).WithContext(where));
    delta->payloads.push_back(std::move(payload).value());
  }
  std::vector<const SegmentMap*> segments;
  for (const PayloadView& payload : delta->payloads) {
    for (const PayloadSegment& segment : payload.segments) segments.push_back(&segment.map);
  }
  return ProveCoverage(delta->layout, segments).WithContext(delta->folder.string());
}

}  // namespace

Result<Delta> OpenDelta(fs::path folder, Manifest manifest, Layout layout, std::vector<PayloadBytes> files,
                        const OpenOptions& options) {
  assert(files.size() == manifest.owners.size() && manifest.layout_digest == layout.digest());
  Delta delta;
  delta.folder = std::move(folder);
  delta.manifest = std::move(manifest);
  delta.layout = std::move(layout);
  delta.files = std::move(files);
  if (delta.manifest.total_bytes != delta.layout.total_bytes()) {
    return CorruptError((delta.folder / "manifest.json").string() + ": field 'total_bytes' is not what the layout adds up to");
  }
  for (const PayloadBytes& file : delta.files) delta.total_file_bytes += file.bytes().size();
  XORBIT_RETURN_IF_ERROR(ParallelFor(options.threads, delta.files.size(), [&](uint64_t i) {
    const ManifestOwner& owner = delta.manifest.owners[i];
    return CheckFileBytes(owner, delta.files[i].bytes(), options).WithContext((delta.folder / owner.file).string());
  }));
  XORBIT_RETURN_IF_ERROR(ParsePayloads(&delta, options));
  return delta;
}

}  // namespace xorbit
