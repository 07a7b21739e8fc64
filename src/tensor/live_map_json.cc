#include "tensor/live_map_json.h"

#include <algorithm>
#include <utility>

#include "base/bytes.h"
#include "base/json.h"

namespace xorbit {
namespace {

constexpr std::string_view kFormatName = "xorbit-live-map";
constexpr uint32_t kMaxDepth = 16;  // ours is 4; room for fields of later versions
constexpr size_t kPieceFields = 5;

std::string_view NameOf(Cast cast) {
  switch (cast) {
    case Cast::kCopy:
      return "copy";
    case Cast::kBf16ToF32:
      return "bf16-to-f32";
    case Cast::kF32ToBf16:
      break;
  }
  return "f32-to-bf16";
}

Result<Cast> ParseCast(std::string_view name) {
  for (const Cast cast : {Cast::kCopy, Cast::kBf16ToF32, Cast::kF32ToBf16}) {
    if (name == NameOf(cast)) return cast;
  }
  return UnsupportedError("the cast is not one that this xorbit knows");
}

Result<uint32_t> AsIndex(const Json& value, std::string_view what) {
  XORBIT_ASSIGN_OR_RETURN(const uint64_t index, AsUnsigned(value, what, UINT32_MAX));
  return static_cast<uint32_t>(index);
}

// A row of `fields` entries, and at most one more: false for a replica.
Status ExpectRow(const Json& row, size_t fields) {
  XORBIT_RETURN_IF_ERROR(ExpectArray(row, "the entry"));
  if (row.size() == fields || row.size() == fields + 1) return {};
  return CorruptError("the entry must have " + std::to_string(fields) + " fields, and may say whether it is counted");
}

Result<bool> CountedIn(const Json& row, size_t fields) {
  if (row.size() == fields) return true;
  return AsBool(row[fields], "whether it is counted");
}

// The piece in a row's fields from `first` on.
Result<Piece> ParsePiece(const Json& row, size_t first) {
  Piece piece;
  XORBIT_ASSIGN_OR_RETURN(piece.tensor_index, AsIndex(row[first], "the tensor"));
  XORBIT_ASSIGN_OR_RETURN(piece.class_index, AsIndex(row[first + 1], "the class"));
  XORBIT_ASSIGN_OR_RETURN(piece.region_index, AsIndex(row[first + 2], "the region"));
  XORBIT_ASSIGN_OR_RETURN(piece.origin, AsUnsigned(row[first + 3], "the origin"));
  XORBIT_ASSIGN_OR_RETURN(piece.live_origin, AsUnsigned(row[first + 4], "the live origin"));
  XORBIT_ASSIGN_OR_RETURN(piece.counted, CountedIn(row, first + kPieceFields));
  return piece;
}

Result<LiveRegion> ParseRegion(const Json& row) {
  XORBIT_RETURN_IF_ERROR(ExpectArray(row, "the entry"));
  if (row.size() != 2) return CorruptError("the entry must be [name, byte count]");
  LiveRegion region;
  XORBIT_ASSIGN_OR_RETURN(region.name, AsString(row[0], "the name"));
  XORBIT_ASSIGN_OR_RETURN(region.byte_count, AsUnsigned(row[1], "the byte count"));
  return region;
}

Result<PieceClass> ParseClass(const Json& row) {
  XORBIT_RETURN_IF_ERROR(ExpectArray(row, "the entry"));
  if (row.size() < 2 || row.size() > 1 + kMaxLiveDigits) {
    return CorruptError("the entry must be [granule bits, digit, ...] with 1 to 8 digits");
  }
  PieceClass shape;
  XORBIT_ASSIGN_OR_RETURN(shape.granule_bits, AsIndex(row[0], "the granule"));
  for (size_t i = 1; i < row.size(); ++i) {
    XORBIT_RETURN_IF_ERROR(ExpectArray(row[i], "a digit"));
    if (row[i].size() != 3) return CorruptError("a digit must be [count, canonical stride, live stride]");
    LiveDigit& digit = shape.digits[shape.digit_count++];
    XORBIT_ASSIGN_OR_RETURN(digit.count, AsUnsigned(row[i][0], "a count"));
    XORBIT_ASSIGN_OR_RETURN(digit.canonical_stride, AsUnsigned(row[i][1], "a stride"));
    XORBIT_ASSIGN_OR_RETURN(digit.live_stride, AsUnsigned(row[i][2], "a stride"));
  }
  return shape;
}

Result<Piece> ParsePieceRow(const Json& row) {
  XORBIT_RETURN_IF_ERROR(ExpectRow(row, kPieceFields));
  return ParsePiece(row, 0);
}

Result<ShadowBinding> ParseShadow(const Json& row) {
  XORBIT_RETURN_IF_ERROR(ExpectRow(row, 1 + kPieceFields));
  XORBIT_ASSIGN_OR_RETURN(const std::string name, AsString(row[0], "the cast"));
  ShadowBinding shadow;
  XORBIT_ASSIGN_OR_RETURN(shadow.cast, ParseCast(name));
  XORBIT_ASSIGN_OR_RETURN(shadow.piece, ParsePiece(row, 1));
  return shadow;
}

Result<AliasBinding> ParseAlias(const Json& row) {
  XORBIT_RETURN_IF_ERROR(ExpectArray(row, "the entry"));
  if (row.size() != 2) return CorruptError("the entry must be [tensor, tensor that it is tied to]");
  AliasBinding alias;
  XORBIT_ASSIGN_OR_RETURN(alias.tensor_index, AsIndex(row[0], "the tensor"));
  XORBIT_ASSIGN_OR_RETURN(alias.of_tensor_index, AsIndex(row[1], "the tensor that it is tied to"));
  return alias;
}

Result<DerivedBinding> ParseDerived(const Json& row) {
  XORBIT_RETURN_IF_ERROR(ExpectRow(row, 2));
  DerivedBinding binding;
  XORBIT_ASSIGN_OR_RETURN(binding.tensor_index, AsIndex(row[0], "the tensor"));
  XORBIT_ASSIGN_OR_RETURN(binding.callback, AsString(row[1], "the callback"));
  XORBIT_ASSIGN_OR_RETURN(binding.counted, CountedIn(row, 2));
  return binding;
}

// Each row of array `key` through `parse`.
template <typename Entry>
Status ParseRows(const Json& json, std::string_view key, Result<Entry> (*parse)(const Json&), std::vector<Entry>* entries) {
  XORBIT_ASSIGN_OR_RETURN(const Json* rows, GetArray(json, key));
  if (rows->size() > kMaxLivePieces) return CorruptError("field '" + std::string(key) + "' has too many entries");
  entries->reserve(rows->size());
  for (const Json& row : *rows) {
    auto entry = parse(row);
    if (!entry.ok()) return entry.status().WithContext("'" + std::string(key) + "' entry " + std::to_string(entries->size()));
    entries->push_back(std::move(entry).value());
  }
  return {};
}

Status ParseAbsentGroups(const Json& json, const Layout& layout, std::vector<uint32_t>* groups) {
  XORBIT_ASSIGN_OR_RETURN(const Json* names, GetArray(json, "absent_groups"));
  if (names->size() > layout.groups().size())
    return CorruptError("field 'absent_groups' has more entries than the layout has groups");
  for (const Json& entry : *names) {
    XORBIT_ASSIGN_OR_RETURN(const std::string name, AsString(entry, "an absent group"));
    const auto at = std::find(layout.groups().begin(), layout.groups().end(), name);
    if (at == layout.groups().end()) return CorruptError("field 'absent_groups' names a group that the layout does not have");
    groups->push_back(static_cast<uint32_t>(at - layout.groups().begin()));
  }
  return {};
}

JsonShape SpecShape(const Layout& layout) {
  JsonShape shape = JsonShape::Object({"format", "format_version", "layout_digest", "epoch"});
  shape.fields.push_back({"absent_groups", JsonShape::Each({}, layout.groups().size())});
  for (const std::string_view key : {"regions", "classes", "pieces", "shadows", "aliases", "derived"}) {
    // Rows of numbers and names, and of digits: one more than may be, for the rows' parsers to refuse.
    const JsonShape row = JsonShape::Each(JsonShape::Each({}, 4), kMaxLiveDigits + 2);
    shape.fields.push_back({key, JsonShape::Each(row, kMaxLivePieces)});
  }
  return shape;
}

Result<LiveMapSpec> ParseSpec(const Json& json, const Layout& layout) {
  XORBIT_RETURN_IF_ERROR(ExpectFormat(json, kFormatName, kLiveMapFormatVersion));
  XORBIT_RETURN_IF_ERROR(CheckCriticalFields(json, {"format", "format_version", "layout_digest", "epoch", "absent_groups",
                                                    "regions", "classes", "pieces", "shadows", "aliases", "derived"}));
  XORBIT_ASSIGN_OR_RETURN(const std::string digest_text, GetString(json, "layout_digest"));
  XORBIT_ASSIGN_OR_RETURN(const Sha256Digest digest, ParseSha256(digest_text));
  if (digest != layout.digest()) return RefusedError("is of another layout than the stream");
  LiveMapSpec spec;
  XORBIT_ASSIGN_OR_RETURN(spec.epoch, GetUnsigned(json, "epoch"));
  XORBIT_RETURN_IF_ERROR(ParseAbsentGroups(json, layout, &spec.absent_groups));
  XORBIT_RETURN_IF_ERROR(ParseRows(json, "regions", ParseRegion, &spec.regions));
  XORBIT_RETURN_IF_ERROR(ParseRows(json, "classes", ParseClass, &spec.classes));
  XORBIT_RETURN_IF_ERROR(ParseRows(json, "pieces", ParsePieceRow, &spec.pieces));
  XORBIT_RETURN_IF_ERROR(ParseRows(json, "shadows", ParseShadow, &spec.shadows));
  XORBIT_RETURN_IF_ERROR(ParseRows(json, "aliases", ParseAlias, &spec.aliases));
  XORBIT_RETURN_IF_ERROR(ParseRows(json, "derived", ParseDerived, &spec.derived));
  return spec;
}

void AppendPiece(const Piece& piece, OrderedJson* row) {
  for (const uint64_t field : {uint64_t{piece.tensor_index}, uint64_t{piece.class_index}, uint64_t{piece.region_index},
                               piece.origin, piece.live_origin}) {
    row->push_back(field);
  }
  if (!piece.counted) row->push_back(false);
}

OrderedJson ClassRow(const PieceClass& shape) {
  OrderedJson row = OrderedJson::array({shape.granule_bits});
  for (uint32_t i = 0; i < shape.digit_count; ++i) {
    row.push_back({shape.digits[i].count, shape.digits[i].canonical_stride, shape.digits[i].live_stride});
  }
  return row;
}

}  // namespace

std::string WriteLiveMapJson(const Layout& layout, const LiveMap& map) {
  OrderedJson json;
  json["format"] = kFormatName;
  json["format_version"] = kLiveMapFormatVersion;
  json["layout_digest"] = ToHex(map.layout_digest());
  json["epoch"] = map.epoch();
  for (const std::string_view key : {"absent_groups", "regions", "classes", "pieces", "shadows", "aliases", "derived"}) {
    json[key] = OrderedJson::array();
  }
  for (uint32_t group = 0; group < layout.groups().size(); ++group) {
    if (map.is_absent(group)) json["absent_groups"].push_back(layout.groups()[group]);
  }
  for (const LiveRegion& region : map.regions())
    json["regions"].push_back(OrderedJson::array({region.name, region.byte_count}));
  for (const PieceClass& shape : map.classes()) json["classes"].push_back(ClassRow(shape));
  OrderedJson& pieces = json["pieces"];
  for (const Piece& piece : map.pieces()) AppendPiece(piece, &pieces.emplace_back(OrderedJson::array()));
  for (const ShadowBinding& shadow : map.shadows()) {
    AppendPiece(shadow.piece, &json["shadows"].emplace_back(OrderedJson::array({NameOf(shadow.cast)})));
  }
  for (const AliasBinding& alias : map.aliases()) {
    json["aliases"].push_back(OrderedJson::array({alias.tensor_index, alias.of_tensor_index}));
  }
  for (const DerivedBinding& binding : map.derived()) {
    OrderedJson& row = json["derived"].emplace_back(OrderedJson::array({binding.tensor_index, binding.callback}));
    if (!binding.counted) row.push_back(false);
  }
  return DumpJson(json) + "\n";
}

Result<LiveMap> ParseLiveMapJson(std::string_view text, const Layout& layout) {
  if (text.size() > kMaxLiveMapBytes) return CorruptError("is longer than a live map may be");
  XORBIT_ASSIGN_OR_RETURN(const Json json, ParseJson(text, SpecShape(layout), kMaxDepth));
  XORBIT_ASSIGN_OR_RETURN(LiveMapSpec spec, ParseSpec(json, layout));
  return LiveMap::Make(layout, std::move(spec));
}

}  // namespace xorbit
