#include "payload/json_fields.h"

#include <algorithm>

#include "base/text.h"
#include "payload/payload_format.h"

namespace xorbit {
namespace {

constexpr uint32_t kMaxDepth = 16;  // ours are at most 4; room for fields of later versions

}  // namespace

Result<Json> ParseDocument(std::string_view text, JsonShape shape, std::string_view format, uint32_t format_version) {
  shape.fields.push_back({"format", {}});
  shape.fields.push_back({"format_version", {}});
  XORBIT_ASSIGN_OR_RETURN(Json json, ParseJson(text, shape, kMaxDepth));
  XORBIT_RETURN_IF_ERROR(ExpectFormat(json, format, format_version));
  return json;
}

bool IsSafeId(std::string_view id) {
  const auto is_safe = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '.' || c == '_' || c == '-';
  };
  return !id.empty() && id.size() <= 128 && id[0] != '.' && std::all_of(id.begin(), id.end(), is_safe);
}

Result<Sha256Digest> GetSha256(const Json& object, std::string_view key) {
  XORBIT_ASSIGN_OR_RETURN(const std::string text, GetString(object, key));
  auto digest = ParseSha256(text);
  if (!digest.ok()) return digest.status().WithContext("field '" + std::string(key) + "'");
  return digest;
}

Result<StateDigest> GetStateDigest(const Json& object, std::string_view key) {
  XORBIT_ASSIGN_OR_RETURN(const std::string text, GetString(object, key));
  auto digest = ParseStateDigest(text);
  if (!digest.ok()) return digest.status().WithContext("field '" + std::string(key) + "'");
  return digest;
}

Result<std::string> GetId(const Json& object, std::string_view key) {
  XORBIT_ASSIGN_OR_RETURN(std::string id, GetString(object, key));
  if (!IsSafeId(id)) {
    return CorruptError("field '" + std::string(key) +
                        "' must be 1 to 128 letters, digits, '.', '_' or '-', not beginning with '.'");
  }
  return id;
}

Result<CodecId> GetCodec(const Json& object, std::string_view key) {
  XORBIT_ASSIGN_OR_RETURN(const std::string name, GetString(object, key));
  const Codec* codec = FindCodec(name);
  if (codec == nullptr) return UnsupportedError("uses a codec that this xorbit does not have");
  return codec->id();
}

JsonShape ManifestOwnerShape() {
  return JsonShape::Object({"file", "byte_count", "head_byte_count", "change_count", "sha256", "head_sha256", "change_digest"});
}

Result<ManifestOwner> ParseManifestOwner(const Json& json, uint32_t owner_index) {
  XORBIT_RETURN_IF_ERROR(ExpectObject(json, "the entry"));
  XORBIT_RETURN_IF_ERROR(CheckCriticalFields(
      json, {"file", "byte_count", "head_byte_count", "change_count", "sha256", "head_sha256", "change_digest"}));
  ManifestOwner owner;
  XORBIT_ASSIGN_OR_RETURN(owner.file, GetString(json, "file"));
  XORBIT_ASSIGN_OR_RETURN(owner.byte_count, GetUnsigned(json, "byte_count"));
  XORBIT_ASSIGN_OR_RETURN(owner.head_byte_count, GetUnsigned(json, "head_byte_count", owner.byte_count));
  XORBIT_ASSIGN_OR_RETURN(owner.change_count, GetUnsigned(json, "change_count"));
  XORBIT_ASSIGN_OR_RETURN(owner.sha256, GetSha256(json, "sha256"));
  XORBIT_ASSIGN_OR_RETURN(owner.head_sha256, GetSha256(json, "head_sha256"));
  XORBIT_ASSIGN_OR_RETURN(owner.change, GetStateDigest(json, "change_digest"));
  if (owner.file != PayloadFileName(owner_index, owner.sha256))
    return CorruptError("field 'file' must be " + PayloadFileName(owner_index, owner.sha256));
  if (owner.head_byte_count < sizeof(PayloadHeader) || owner.head_byte_count % 8 != 0) {
    return CorruptError("field 'head_byte_count' is impossible");
  }
  return owner;
}

OrderedJson ManifestOwnerJson(const ManifestOwner& owner) {
  return {{"file", owner.file},
          {"byte_count", owner.byte_count},
          {"head_byte_count", owner.head_byte_count},
          {"change_count", owner.change_count},
          {"sha256", ToHex(owner.sha256)},
          {"head_sha256", ToHex(owner.head_sha256)},
          {"change_digest", ToText(owner.change)}};
}

}  // namespace xorbit
