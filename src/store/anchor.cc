#include "store/anchor.h"

#include <algorithm>

#include "payload/json_fields.h"
#include "store/checked_text.h"

namespace xorbit {
namespace {

constexpr std::string_view kFormatName = "xorbit-anchor";
constexpr uint32_t kFormatVersion = 1;
constexpr uint64_t kMaxAnchorFiles = 65'536;  // as many as a checkpoint may have
constexpr std::string_view kAnchorName = "anchor.json";

Result<AnchorFile> ParseFile(const Json& json) {
  XORBIT_RETURN_IF_ERROR(ExpectObject(json, "the entry"));
  XORBIT_RETURN_IF_ERROR(CheckCriticalFields(json, {"name", "byte_count", "sha256"}));
  AnchorFile file;
  XORBIT_ASSIGN_OR_RETURN(file.name, GetId(json, "name"));
  XORBIT_ASSIGN_OR_RETURN(file.byte_count, GetUnsigned(json, "byte_count"));
  XORBIT_ASSIGN_OR_RETURN(file.sha256, GetSha256(json, "sha256"));
  if (!IsAnchorFileName(file.name)) return CorruptError("field 'name' must not be " + file.name);
  return file;
}

}  // namespace

bool IsAnchorFileName(std::string_view name) { return IsSafeId(name) && name != kAnchorName; }

std::string WriteAnchor(const Anchor& anchor) {
  OrderedJson json;
  json["format"] = kFormatName;
  json["format_version"] = kFormatVersion;
  json["version"] = anchor.version;
  json["state_digest"] = ToText(anchor.state);
  OrderedJson& files = json["files"] = OrderedJson::array();
  for (const AnchorFile& file : anchor.files) {
    files.push_back({{"name", file.name}, {"byte_count", file.byte_count}, {"sha256", ToHex(file.sha256)}});
  }
  return DumpJson(json) + "\n";
}

Result<Anchor> ParseAnchor(std::string_view text) {
  JsonShape shape = JsonShape::Object({"version", "state_digest"});
  shape.fields.push_back({"files", JsonShape::Each(JsonShape::Object({"name", "byte_count", "sha256"}), kMaxAnchorFiles)});
  XORBIT_ASSIGN_OR_RETURN(const Json json, ParseDocument(text, shape, kFormatName, kFormatVersion));
  XORBIT_RETURN_IF_ERROR(CheckCriticalFields(json, {"format", "format_version", "version", "state_digest", "files"}));
  Anchor anchor;
  XORBIT_ASSIGN_OR_RETURN(anchor.version, GetUnsigned(json, "version", kMaxVersion));
  XORBIT_ASSIGN_OR_RETURN(anchor.state, GetStateDigest(json, "state_digest"));
  XORBIT_ASSIGN_OR_RETURN(const Json* files, GetArray(json, "files"));
  for (const Json& entry : *files) {
    auto file = ParseFile(entry);
    if (!file.ok()) return file.status().WithContext("file " + std::to_string(anchor.files.size()));
    if (!anchor.files.empty() && anchor.files.back().name >= file->name) return CorruptError("files do not ascend by name");
    anchor.files.push_back(std::move(file).value());
  }
  if (anchor.files.empty()) return CorruptError("field 'files' must not be empty");
  return anchor;
}

Status PutAnchor(Stream& stream, uint64_t version, std::span<const AnchorSource> files) {
  XORBIT_ASSIGN_OR_RETURN(const VersionRecord record, stream.CommittedRecord(version));
  XORBIT_ASSIGN_OR_RETURN(const bool dead, stream.IsDeadAnchor(version));
  if (dead) return RefusedError("the anchor of version " + std::to_string(version) + " was given up");
  Anchor anchor{version, record.target, {}};
  for (const AnchorSource& file : files) anchor.files.push_back({file.name, file.bytes.size(), Sha256Of(file.bytes)});
  std::sort(anchor.files.begin(), anchor.files.end(), [](const AnchorFile& a, const AnchorFile& b) { return a.name < b.name; });
  const std::string text = WriteAnchor(anchor);
  if (auto read_back = ParseAnchor(text); !read_back.ok()) return UsageError("the anchor: " + read_back.status().message());
  const std::string& id = stream.info().stream_id;
  for (const AnchorSource& file : files) {
    XORBIT_RETURN_IF_ERROR(stream.store().PutNew(AnchorFolder(id, version) + file.name, file.bytes));
  }
  XORBIT_RETURN_IF_ERROR(PutText(stream.store(), AnchorKey(id, version), text));
  // A collector may have taken what took longer than its grace for what a dead publisher left.
  XORBIT_ASSIGN_OR_RETURN(const bool given_up, stream.IsDeadAnchor(version));
  return given_up ? RefusedError("the anchor of version " + std::to_string(version) + " was given up before it was whole")
                  : Status();
}

Result<std::vector<uint64_t>> AnchorVersions(Stream& stream) {
  const std::string& id = stream.info().stream_id;
  XORBIT_ASSIGN_OR_RETURN(const std::vector<ObjectInfo> objects, stream.store().List(id + "/v"));
  std::vector<uint64_t> versions;
  for (const ObjectInfo& object : objects) {
    const auto placed = ParsePlacedKey(id, object.key);
    if (!placed || !placed->place.publication_id.empty() || placed->file != kAnchorName) continue;
    XORBIT_ASSIGN_OR_RETURN(const bool dead, stream.IsDeadAnchor(placed->place.target_version));
    if (!dead) versions.push_back(placed->place.target_version);
  }
  std::sort(versions.begin(), versions.end());
  return versions;
}

Result<Anchor> ReadAnchor(Stream& stream, uint64_t version) {
  XORBIT_ASSIGN_OR_RETURN(const VersionRecord record, stream.CommittedRecord(version));
  const std::string key = AnchorKey(stream.info().stream_id, version);
  XORBIT_ASSIGN_OR_RETURN(const bool dead, stream.IsDeadAnchor(version));
  if (dead) return NotFoundError("the anchor of version " + std::to_string(version) + " was given up");
  XORBIT_ASSIGN_OR_RETURN(const std::string text, GetText(stream.store(), key, kMaxAnchorBytes));
  auto anchor = ParseAnchor(text);
  if (!anchor.ok()) return anchor.status().WithContext(key);
  if (anchor->version != version || anchor->state != record.target) return CorruptError(key + " is of another version");
  return anchor;
}

}  // namespace xorbit
