#include "store/receipt.h"

#include "base/text.h"
#include "payload/json_fields.h"
#include "payload/parts.h"
#include "tensor/ownership.h"

namespace xorbit {
namespace {

constexpr std::string_view kFormatName = "xorbit-receipt";
constexpr uint32_t kFormatVersion = 1;

JsonShape ReceiptShape() {
  JsonShape shape = JsonShape::Object({"base_version", "target_version", "publication_id", "owner_index", "owner_count",
                                       "codec", "has_digests", "base_part_digest", "parts_sha256"});
  shape.fields.push_back({"payload", ManifestOwnerShape()});
  shape.fields.push_back(
      {"witnesses", JsonShape::Each(JsonShape::Object({"owner_index", "part_sha256", "after_digest"}), kMaxOwners)});
  return shape;
}

Result<WitnessDigest> ParseWitness(const Json& json, uint32_t owner_count) {
  XORBIT_RETURN_IF_ERROR(ExpectObject(json, "the entry"));
  XORBIT_RETURN_IF_ERROR(CheckCriticalFields(json, {"owner_index", "part_sha256", "after_digest"}));
  WitnessDigest witness;
  XORBIT_ASSIGN_OR_RETURN(const uint64_t owner_index, GetUnsigned(json, "owner_index", owner_count - 1));
  witness.owner_index = static_cast<uint32_t>(owner_index);
  XORBIT_ASSIGN_OR_RETURN(witness.part_sha256, GetSha256(json, "part_sha256"));
  XORBIT_ASSIGN_OR_RETURN(witness.after, GetStateDigest(json, "after_digest"));
  return witness;
}

Result<PublicationPlace> ParsePlace(const Json& json) {
  PublicationPlace place;
  XORBIT_ASSIGN_OR_RETURN(place.base_version, GetUnsigned(json, "base_version", kMaxVersion));
  XORBIT_ASSIGN_OR_RETURN(place.target_version, GetUnsigned(json, "target_version", kMaxVersion));
  XORBIT_ASSIGN_OR_RETURN(place.publication_id, GetId(json, "publication_id"));
  if (place.base_version >= place.target_version) return CorruptError("field 'target_version' must be above 'base_version'");
  return place;
}

}  // namespace

Sha256Digest PartsDigest(const Layout& layout, std::span<const SegmentMap* const> segments) {
  Buffer bytes;
  for (const SegmentMap* segment : segments) {
    const Buffer parts = EncodeParts(layout, *segment);
    AppendLe(bytes, segment->unit_bytes());
    AppendLe(bytes, segment->group());
    AppendLe(bytes, uint64_t{parts.size()});
    AppendBytes(bytes, parts);
  }
  return Sha256Of(bytes);
}

std::string WriteReceipt(const Receipt& receipt) {
  OrderedJson json;
  json["format"] = kFormatName;
  json["format_version"] = kFormatVersion;
  json["base_version"] = receipt.place.base_version;
  json["target_version"] = receipt.place.target_version;
  json["publication_id"] = receipt.place.publication_id;
  json["owner_index"] = receipt.owner_index;
  json["owner_count"] = receipt.owner_count;
  json["codec"] = FindCodec(receipt.codec)->name();
  json["has_digests"] = receipt.has_digests;
  json["payload"] = ManifestOwnerJson(receipt.owner);
  json["base_part_digest"] = ToText(receipt.base_part);
  json["parts_sha256"] = ToHex(receipt.parts_sha256);
  OrderedJson& witnesses = json["witnesses"] = OrderedJson::array();
  for (const WitnessDigest& witness : receipt.witnesses) {
    witnesses.push_back({{"owner_index", witness.owner_index},
                         {"part_sha256", ToHex(witness.part_sha256)},
                         {"after_digest", ToText(witness.after)}});
  }
  return DumpJson(json) + "\n";
}

Result<Receipt> ParseReceipt(std::string_view text) {
  XORBIT_ASSIGN_OR_RETURN(const Json json, ParseDocument(text, ReceiptShape(), kFormatName, kFormatVersion));
  XORBIT_RETURN_IF_ERROR(CheckCriticalFields(
      json, {"format", "format_version", "base_version", "target_version", "publication_id", "owner_index", "owner_count",
             "codec", "has_digests", "payload", "base_part_digest", "parts_sha256", "witnesses"}));
  Receipt receipt;
  XORBIT_ASSIGN_OR_RETURN(receipt.place, ParsePlace(json));
  XORBIT_ASSIGN_OR_RETURN(const uint64_t owner_count, GetUnsigned(json, "owner_count", kMaxOwners));
  if (owner_count == 0) return CorruptError("field 'owner_count' must be at least 1");
  receipt.owner_count = static_cast<uint32_t>(owner_count);
  XORBIT_ASSIGN_OR_RETURN(const uint64_t owner_index, GetUnsigned(json, "owner_index", owner_count - 1));
  receipt.owner_index = static_cast<uint32_t>(owner_index);
  XORBIT_ASSIGN_OR_RETURN(receipt.codec, GetCodec(json, "codec"));
  XORBIT_ASSIGN_OR_RETURN(receipt.has_digests, GetBool(json, "has_digests"));
  XORBIT_ASSIGN_OR_RETURN(const Json* payload, GetObject(json, "payload"));
  auto owner = ParseManifestOwner(*payload, receipt.owner_index);
  if (!owner.ok()) return owner.status().WithContext("payload");
  receipt.owner = std::move(owner).value();
  XORBIT_ASSIGN_OR_RETURN(receipt.base_part, GetStateDigest(json, "base_part_digest"));
  XORBIT_ASSIGN_OR_RETURN(receipt.parts_sha256, GetSha256(json, "parts_sha256"));
  XORBIT_ASSIGN_OR_RETURN(const Json* witnesses, GetArray(json, "witnesses"));
  for (const Json& entry : *witnesses) {
    auto witness = ParseWitness(entry, receipt.owner_count);
    if (!witness.ok()) return witness.status().WithContext("witness " + std::to_string(receipt.witnesses.size()));
    receipt.witnesses.push_back(*witness);
  }
  return receipt;
}

}  // namespace xorbit
