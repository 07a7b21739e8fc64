#include "store/anchor.h"

#include <algorithm>
#include <set>
#include <utility>

#include "base/checksum_field.h"
#include "base/text.h"
#include "payload/json_fields.h"
#include "store/checked_text.h"

namespace xorbit {
namespace {

constexpr std::string_view kFormatName = "xorbit-anchor";
constexpr uint32_t kFormatVersion = 1;
constexpr uint64_t kMaxAnchorFiles = 65'536;  // as many as a checkpoint may have
constexpr std::string_view kAnchorName = "anchor.json";
constexpr size_t kAnchorIdDigits = 16;

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

// The anchor's folder is named by its text, which names the files by their hashes.
std::string AnchorId(std::string_view text) { return ToHex(Sha256Of(AsBytes(text))).substr(0, kAnchorIdDigits); }

Status PutFiles(ObjectStore& store, std::string_view stream_id, Anchor anchor, std::span<const AnchorSource> files) {
  for (const AnchorSource& file : files) anchor.files.push_back({file.name, file.bytes.size(), Sha256Of(file.bytes)});
  std::sort(anchor.files.begin(), anchor.files.end(), [](const AnchorFile& a, const AnchorFile& b) { return a.name < b.name; });
  const std::string text = WithChecksum(WriteAnchor(anchor));
  if (auto read_back = ParseAnchor(text); !read_back.ok()) return UsageError("the anchor: " + read_back.status().message());
  const std::string folder = AnchorsFolder(stream_id, anchor.version) + AnchorId(text) + "/";
  for (const AnchorSource& file : files) XORBIT_RETURN_IF_ERROR(store.PutNew(folder + file.name, file.bytes));
  return store.PutNew(folder + std::string(kAnchorName), AsBytes(text));
}

Result<StoredAnchor> ReadSealed(ObjectStore& store, const std::string& key) {
  XORBIT_ASSIGN_OR_RETURN(const std::string text, GetText(store, key, kMaxAnchorBytes));
  auto anchor = ParseAnchor(text);
  if (!anchor.ok()) return anchor.status().WithContext(key);
  const std::string folder = key.substr(0, key.size() - kAnchorName.size());
  if (!folder.ends_with("/" + AnchorId(text) + "/")) return CorruptError(key + " is of another folder");
  return StoredAnchor{std::move(anchor).value(), folder};
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

bool IsAnchorSeal(std::string_view file) {
  const size_t slash = file.find('/');
  return slash != std::string_view::npos && file.substr(slash + 1) == kAnchorName;
}

Status PutAnchor(Stream& stream, uint64_t version, std::span<const AnchorSource> files) {
  XORBIT_ASSIGN_OR_RETURN(const VersionRecord record, stream.CommittedRecord(version));
  XORBIT_ASSIGN_OR_RETURN(const bool dead, stream.IsDeadAnchor(version));
  if (dead) return RefusedError("the anchor of version " + std::to_string(version) + " was given up");
  XORBIT_RETURN_IF_ERROR(PutFiles(stream.store(), stream.info().stream_id, {version, record.target, {}}, files));
  // A collector may have taken what took longer than its grace for what a dead publisher left.
  XORBIT_ASSIGN_OR_RETURN(const bool given_up, stream.IsDeadAnchor(version));
  return given_up ? RefusedError("the anchor of version " + std::to_string(version) + " was given up before it was whole")
                  : Status();
}

Status PutFirstAnchor(ObjectStore& store, std::string_view stream_id, const StateDigest& base,
                      std::span<const AnchorSource> files) {
  return PutFiles(store, stream_id, {0, base, {}}, files);
}

// At version 0 there may be anchors of states that lost it to another publisher: these are none.
Result<std::vector<uint64_t>> AnchorVersions(Stream& stream) {
  const std::string& id = stream.info().stream_id;
  XORBIT_ASSIGN_OR_RETURN(const std::vector<ObjectInfo> objects, stream.store().List(id + "/v"));
  std::set<uint64_t> sealed;
  for (const ObjectInfo& object : objects) {
    const auto placed = ParsePlacedKey(id, object.key);
    if (placed && placed->place.publication_id.empty() && IsAnchorSeal(placed->file))
      sealed.insert(placed->place.target_version);
  }
  std::vector<uint64_t> versions;
  for (const uint64_t version : sealed) {
    const Status status = ReadAnchor(stream, version).status();
    if (status.code() == Code::kIo) return status;
    if (status.ok() || status.code() == Code::kCorrupt) versions.push_back(version);  // what is damaged may be whole tomorrow
  }
  return versions;
}

Result<StoredAnchor> ReadAnchor(Stream& stream, uint64_t version) {
  XORBIT_ASSIGN_OR_RETURN(const VersionRecord record, stream.CommittedRecord(version));
  XORBIT_ASSIGN_OR_RETURN(const bool dead, stream.IsDeadAnchor(version));
  if (dead) return NotFoundError("the anchor of version " + std::to_string(version) + " was given up");
  const std::string folder = AnchorsFolder(stream.info().stream_id, version);
  XORBIT_ASSIGN_OR_RETURN(const std::vector<ObjectInfo> objects, stream.store().List(folder));
  Status failure = NotFoundError("version " + std::to_string(version) + " is not there as a whole");
  for (const ObjectInfo& object : objects) {
    if (!IsAnchorSeal(std::string_view(object.key).substr(folder.size()))) continue;
    Result<StoredAnchor> stored = ReadSealed(stream.store(), object.key);
    if (stored.ok() && stored->anchor.version == version && stored->anchor.state == record.target) return stored;
    if (stored.ok() && stored->anchor.version != version) stored = CorruptError(object.key + " is of another version");
    if (!stored.ok() && stored.status().code() != Code::kNotFound) failure = stored.status();
  }
  return failure;
}

}  // namespace xorbit
