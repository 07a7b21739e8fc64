#include "store/tombstones.h"

#include "payload/json_fields.h"

namespace xorbit {
namespace {

constexpr std::string_view kFormatName = "xorbit-tombstones";
constexpr uint32_t kFormatVersion = 1;
constexpr uint64_t kMaxTombstones = uint64_t{1} << 20;  // of each kind: about what kMaxTombstoneBytes hold

// [base version, target version, publication id]: a long run lists many.
Result<PublicationPlace> ParseRow(const Json& row) {
  XORBIT_RETURN_IF_ERROR(ExpectArray(row, "the entry"));
  if (row.size() != 3) return CorruptError("the entry must be [base version, target version, publication id]");
  PublicationPlace place;
  XORBIT_ASSIGN_OR_RETURN(place.base_version, AsUnsigned(row[0], "the base version"));
  XORBIT_ASSIGN_OR_RETURN(place.target_version, AsUnsigned(row[1], "the target version"));
  XORBIT_ASSIGN_OR_RETURN(place.publication_id, AsString(row[2], "the publication id"));
  if (!CheckPlace(place).ok()) return CorruptError("the entry cannot be a publication's");
  return place;
}

}  // namespace

std::string WriteTombstones(const Tombstones& tombstones) {
  OrderedJson json;
  json["format"] = kFormatName;
  json["format_version"] = kFormatVersion;
  json["number"] = tombstones.number;
  OrderedJson& places = json["publications"] = OrderedJson::array();
  for (const PublicationPlace& place : tombstones.places) {
    places.push_back(OrderedJson::array({place.base_version, place.target_version, place.publication_id}));
  }
  json["anchors"] = tombstones.anchors;
  return DumpJson(json) + "\n";
}

Result<Tombstones> ParseTombstones(std::string_view text) {
  JsonShape shape = JsonShape::Object({"number"});
  shape.fields.push_back({"publications", JsonShape::Each(JsonShape::Each({}, 4), kMaxTombstones)});
  shape.fields.push_back({"anchors", JsonShape::Each({}, kMaxTombstones)});
  XORBIT_ASSIGN_OR_RETURN(const Json json, ParseDocument(text, shape, kFormatName, kFormatVersion));
  XORBIT_RETURN_IF_ERROR(CheckCriticalFields(json, {"format", "format_version", "number", "publications", "anchors"}));
  Tombstones tombstones;
  XORBIT_ASSIGN_OR_RETURN(tombstones.number, GetUnsigned(json, "number", kMaxVersion));
  XORBIT_ASSIGN_OR_RETURN(const Json* rows, GetArray(json, "publications"));
  for (const Json& row : *rows) {
    auto place = ParseRow(row);
    if (!place.ok()) return place.status().WithContext("publication " + std::to_string(tombstones.places.size()));
    if (!tombstones.places.empty() && tombstones.places.back() >= *place) return CorruptError("publications do not ascend");
    tombstones.places.push_back(std::move(place).value());
  }
  XORBIT_ASSIGN_OR_RETURN(const Json* anchors, GetArray(json, "anchors"));
  for (const Json& entry : *anchors) {
    XORBIT_ASSIGN_OR_RETURN(const uint64_t version, AsUnsigned(entry, "an anchor", kMaxVersion));
    if (!tombstones.anchors.empty() && tombstones.anchors.back() >= version) return CorruptError("anchors do not ascend");
    tombstones.anchors.push_back(version);
  }
  return tombstones;
}

}  // namespace xorbit
