#include "store/version_record.h"

#include <cassert>

#include "base/checksum_field.h"
#include "base/text.h"
#include "payload/json_fields.h"

namespace xorbit {
namespace {

constexpr std::string_view kFormatName = "xorbit-version";
constexpr uint32_t kFormatVersion = 1;
constexpr std::string_view kCommitted = "committed";
constexpr std::string_view kAborted = "aborted";

Status ParseCommit(const Json& json, VersionRecord* record) {
  XORBIT_ASSIGN_OR_RETURN(record->target, GetStateDigest(json, "target_digest"));
  XORBIT_ASSIGN_OR_RETURN(record->layout_digest, GetSha256(json, "layout_digest"));
  if (record->version == 0) {
    if (json.contains("parent")) return CorruptError("version 0 must not have a 'parent'");
    return {};
  }
  XORBIT_ASSIGN_OR_RETURN(record->parent, GetUnsigned(json, "parent", record->version - 1));
  XORBIT_ASSIGN_OR_RETURN(record->publication_id, GetId(json, "publication_id"));
  XORBIT_ASSIGN_OR_RETURN(record->manifest_sha256, GetSha256(json, "manifest_sha256"));
  return {};
}

}  // namespace

std::string StreamManifestText(const Manifest& manifest) { return WithChecksum(WriteManifest(manifest)); }

VersionRecord CommitRecord(const Manifest& manifest) {
  assert(manifest.stream);
  VersionRecord record;
  record.version = manifest.stream->target_version;
  record.decision = Decision::kCommitted;
  record.target = manifest.target;
  record.layout_digest = manifest.layout_digest;
  record.parent = manifest.stream->base_version;
  record.publication_id = manifest.stream->publication_id;
  record.manifest_sha256 = Sha256Of(AsBytes(StreamManifestText(manifest)));
  return record;
}

VersionRecord AbortRecord(uint64_t version) {
  VersionRecord record;
  record.version = version;
  return record;
}

std::string WriteVersionRecord(const VersionRecord& record) {
  OrderedJson json;
  json["format"] = kFormatName;
  json["format_version"] = kFormatVersion;
  json["version"] = record.version;
  json["decision"] = record.committed() ? kCommitted : kAborted;
  if (record.committed()) {
    json["target_digest"] = ToText(record.target);
    json["layout_digest"] = ToHex(record.layout_digest);
  }
  if (record.committed() && record.parent) {
    json["parent"] = *record.parent;
    json["publication_id"] = record.publication_id;
    json["manifest_sha256"] = ToHex(record.manifest_sha256);
  }
  return DumpJson(json) + "\n";
}

Result<VersionRecord> ParseVersionRecord(std::string_view text) {
  const JsonShape shape = JsonShape::Object(
      {"version", "decision", "target_digest", "layout_digest", "parent", "publication_id", "manifest_sha256"});
  XORBIT_ASSIGN_OR_RETURN(const Json json, ParseDocument(text, shape, kFormatName, kFormatVersion));
  XORBIT_RETURN_IF_ERROR(CheckCriticalFields(json, {"format", "format_version", "version", "decision", "target_digest",
                                                    "layout_digest", "parent", "publication_id", "manifest_sha256"}));
  VersionRecord record;
  XORBIT_ASSIGN_OR_RETURN(record.version, GetUnsigned(json, "version", kMaxVersion));
  XORBIT_ASSIGN_OR_RETURN(const std::string decision, GetString(json, "decision"));
  if (decision != kCommitted && decision != kAborted) {
    return CorruptError("field 'decision' must be \"committed\" or \"aborted\"");
  }
  if (decision == kAborted && record.version == 0) return CorruptError("version 0 cannot be aborted");
  if (decision == kAborted) return record;
  record.decision = Decision::kCommitted;
  XORBIT_RETURN_IF_ERROR(ParseCommit(json, &record));
  return record;
}

}  // namespace xorbit
