#include "payload/manifest.h"

#include "base/checked_math.h"
#include "base/text.h"
#include "payload/json_fields.h"
#include "tensor/ownership.h"

namespace xorbit {
namespace {

constexpr std::string_view kFormatName = "xorbit-delta";

JsonShape ManifestShape() {
  JsonShape shape = JsonShape::Object(
      {"layout_digest", "codec", "has_digests", "base_digest", "target_digest", "change_count", "total_bytes"});
  shape.fields.push_back(
      {"stream", JsonShape::Object({"stream_id", "base_fingerprint", "base_version", "target_version", "publication_id"})});
  shape.fields.push_back({"owners", JsonShape::Each(ManifestOwnerShape(), kMaxOwners)});
  return shape;
}

Result<StreamIdentity> ParseStream(const Json& json) {
  XORBIT_RETURN_IF_ERROR(
      CheckCriticalFields(json, {"stream_id", "base_fingerprint", "base_version", "target_version", "publication_id"}));
  StreamIdentity stream;
  XORBIT_ASSIGN_OR_RETURN(stream.stream_id, GetId(json, "stream_id"));
  XORBIT_ASSIGN_OR_RETURN(stream.base_fingerprint, GetSha256(json, "base_fingerprint"));
  XORBIT_ASSIGN_OR_RETURN(stream.base_version, GetUnsigned(json, "base_version"));
  XORBIT_ASSIGN_OR_RETURN(stream.target_version, GetUnsigned(json, "target_version"));
  XORBIT_ASSIGN_OR_RETURN(stream.publication_id, GetId(json, "publication_id"));
  if (stream.base_version == stream.target_version)
    return CorruptError("field 'target_version' must differ from 'base_version'");
  return stream;
}

// What the owners say together: counts, and with digests, linearity.
Status CheckSums(const Manifest& manifest) {
  uint64_t change_count = 0;
  StateDigest change;
  for (const ManifestOwner& owner : manifest.owners) {
    const auto sum = CheckedAdd(change_count, owner.change_count);
    if (!sum) return CorruptError("the owners' change counts do not add up");
    change_count = *sum;
    change += owner.change;
    if ((owner.change_count == 0 || !manifest.has_digests) && owner.change != StateDigest{}) {
      return CorruptError("owner file '" + owner.file + "' has a change digest without digests or without changes");
    }
  }
  if (change_count != manifest.change_count) return CorruptError("the owners' change counts do not add up to 'change_count'");
  if (manifest.has_digests && change != manifest.target - manifest.base) {
    return CorruptError("the owners' change digests do not add up to 'target_digest' - 'base_digest'");
  }
  if (change_count == 0 && manifest.target != manifest.base)
    return CorruptError("'target_digest' differs although nothing changes");
  return {};
}

Result<Manifest> ParseFields(const Json& json) {
  XORBIT_RETURN_IF_ERROR(
      CheckCriticalFields(json, {"format", "format_version", "layout_digest", "codec", "has_digests", "base_digest",
                                 "target_digest", "change_count", "total_bytes", "stream", "owners"}));
  Manifest manifest;
  XORBIT_ASSIGN_OR_RETURN(manifest.layout_digest, GetSha256(json, "layout_digest"));
  XORBIT_ASSIGN_OR_RETURN(manifest.codec, GetCodec(json, "codec"));
  XORBIT_ASSIGN_OR_RETURN(manifest.has_digests, GetBool(json, "has_digests"));
  XORBIT_ASSIGN_OR_RETURN(manifest.base, GetStateDigest(json, "base_digest"));
  XORBIT_ASSIGN_OR_RETURN(manifest.target, GetStateDigest(json, "target_digest"));
  XORBIT_ASSIGN_OR_RETURN(manifest.change_count, GetUnsigned(json, "change_count"));
  XORBIT_ASSIGN_OR_RETURN(manifest.total_bytes, GetUnsigned(json, "total_bytes"));
  if (json.contains("stream")) {
    XORBIT_ASSIGN_OR_RETURN(const Json* stream, GetObject(json, "stream"));
    auto parsed = ParseStream(*stream);
    if (!parsed.ok()) return parsed.status().WithContext("stream");
    manifest.stream = std::move(parsed).value();
  }
  XORBIT_ASSIGN_OR_RETURN(const Json* owners, GetArray(json, "owners"));
  if (owners->empty()) return CorruptError("field 'owners' must have 1 to " + std::to_string(kMaxOwners) + " entries");
  for (const Json& entry : *owners) {
    const auto index = static_cast<uint32_t>(manifest.owners.size());
    auto owner = ParseManifestOwner(entry, index);
    if (!owner.ok()) return owner.status().WithContext("owner " + std::to_string(index));
    manifest.owners.push_back(std::move(owner).value());
  }
  XORBIT_RETURN_IF_ERROR(CheckSums(manifest));
  return manifest;
}

}  // namespace

std::string PayloadFileName(uint32_t owner_index, const Sha256Digest& sha256) {
  return "owner-" + ZeroPadded(owner_index, 5) + "-" + ToHex(sha256).substr(0, 16) + ".xob";
}

ManifestOwner ManifestOwnerOf(const Payload& payload) {
  return {PayloadFileName(payload.info.owner_index, payload.sha256),
          payload.byte_count,
          payload.head.size(),
          payload.change_count,
          payload.sha256,
          payload.head_sha256,
          payload.change};
}

Result<Manifest> SealManifest(const Layout& layout, const std::vector<Payload>& payloads, const StateDigest& base,
                              const StateDigest& target, std::optional<StreamIdentity> stream) {
  if (payloads.empty()) return UsageError("a delta needs at least one owner");
  Manifest manifest;
  manifest.layout_digest = layout.digest();
  manifest.codec = payloads[0].info.codec;
  manifest.base = base;
  manifest.target = target;
  manifest.total_bytes = layout.total_bytes();
  manifest.stream = std::move(stream);
  for (uint32_t i = 0; i < payloads.size(); ++i) {
    const Payload& payload = payloads[i];
    if (payload.info.owner_index != i || payload.info.owner_count != payloads.size() || payload.info.codec != manifest.codec) {
      return UsageError("the payloads do not belong to one delta");
    }
    manifest.has_digests = manifest.has_digests && payload.has_digests;
    manifest.change_count += payload.change_count;
    manifest.owners.push_back(ManifestOwnerOf(payload));
  }
  if (Status sums = CheckSums(manifest); !sums.ok()) return UsageError(sums.message());
  return manifest;
}

std::string WriteManifest(const Manifest& manifest) {
  OrderedJson json;
  json["format"] = kFormatName;
  json["format_version"] = kManifestFormatVersion;
  json["layout_digest"] = ToHex(manifest.layout_digest);
  json["codec"] = FindCodec(manifest.codec)->name();
  json["has_digests"] = manifest.has_digests;
  json["base_digest"] = ToText(manifest.base);
  json["target_digest"] = ToText(manifest.target);
  json["change_count"] = manifest.change_count;
  json["total_bytes"] = manifest.total_bytes;
  if (manifest.stream) {
    json["stream"] = {{"stream_id", manifest.stream->stream_id},
                      {"base_fingerprint", ToHex(manifest.stream->base_fingerprint)},
                      {"base_version", manifest.stream->base_version},
                      {"target_version", manifest.stream->target_version},
                      {"publication_id", manifest.stream->publication_id}};
  }
  OrderedJson& owners = json["owners"] = OrderedJson::array();
  for (const ManifestOwner& owner : manifest.owners) owners.push_back(ManifestOwnerJson(owner));
  return DumpJson(json) + "\n";
}

Result<Manifest> ParseManifest(std::string_view text) {
  static const JsonShape shape = ManifestShape();
  XORBIT_ASSIGN_OR_RETURN(const Json json, ParseDocument(text, shape, kFormatName, kManifestFormatVersion));
  return ParseFields(json);
}

}  // namespace xorbit
