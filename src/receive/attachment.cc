#include "receive/attachment.h"

#include <unordered_set>

#include "base/json.h"
#include "base/text.h"

namespace xorbit {
namespace {

constexpr std::string_view kFormatName = "xorbit-attachment";
constexpr std::string_view kSharedMemory = "shared-memory";
constexpr std::string_view kCudaIpc = "cuda-ipc";
constexpr uint32_t kMaxDepth = 3;

// `fields` values that fit a row of that many.
Status ExpectRow(const Json& row, size_t count, std::string_view fields) {
  XORBIT_RETURN_IF_ERROR(ExpectArray(row, "the entry"));
  if (row.size() == count) return {};
  return CorruptError("the entry must be [" + std::string(fields) + "]");
}

Result<ExportedSegment> ParseSegment(const Json& row) {
  XORBIT_RETURN_IF_ERROR(ExpectArray(row, "the entry"));
  if (row.empty()) return CorruptError("the entry must begin with a kind of memory");
  XORBIT_ASSIGN_OR_RETURN(const std::string kind, AsString(row[0], "the kind"));
  ExportedSegment segment;
  if (kind == kSharedMemory) {
    XORBIT_RETURN_IF_ERROR(ExpectRow(row, 3, "\"shared-memory\", name, bytes"));
    XORBIT_ASSIGN_OR_RETURN(segment.name, AsString(row[1], "the name"));
    XORBIT_ASSIGN_OR_RETURN(segment.byte_count, AsUnsigned(row[2], "the bytes"));
    return segment;
  }
  if (kind == kCudaIpc) {
    XORBIT_RETURN_IF_ERROR(ExpectRow(row, 4, "\"cuda-ipc\", device's UUID, handle, bytes"));
    segment.kind = ExportedSegment::Kind::kCudaIpc;
    XORBIT_ASSIGN_OR_RETURN(segment.device, AsString(row[1], "the device"));
    XORBIT_ASSIGN_OR_RETURN(segment.name, AsString(row[2], "the handle"));
    XORBIT_ASSIGN_OR_RETURN(segment.byte_count, AsUnsigned(row[3], "the bytes"));
    return segment;
  }
  return UnsupportedError("memory of kind " + Quoted(kind) + " is not known to this xorbit: shared-memory and cuda-ipc are");
}

Status ParsePlaceAt(const Json& row, size_t at, size_t segment_count, ExportedPlace* place) {
  if (segment_count == 0) return CorruptError("there is no segment");
  XORBIT_ASSIGN_OR_RETURN(const uint64_t segment, AsUnsigned(row[at], "the segment", segment_count - 1));
  place->segment_index = static_cast<uint32_t>(segment);
  XORBIT_ASSIGN_OR_RETURN(place->offset_bytes, AsUnsigned(row[at + 1], "the offset"));
  return {};
}

Status ParsePlaces(const Json& json, std::string_view key, size_t segment_count, std::vector<ExportedPlace>* places) {
  XORBIT_ASSIGN_OR_RETURN(const Json* rows, GetArray(json, key));
  places->reserve(rows->size());
  std::unordered_set<std::string> names;
  for (const Json& row : *rows) {
    ExportedPlace place;
    const Status status = [&]() -> Status {
      XORBIT_RETURN_IF_ERROR(ExpectRow(row, 3, "name, segment, offset"));
      XORBIT_ASSIGN_OR_RETURN(place.name, AsString(row[0], "the name"));
      return ParsePlaceAt(row, 1, segment_count, &place);
    }();
    if (!status.ok()) return status.WithContext("'" + std::string(key) + "' entry " + std::to_string(places->size()));
    if (!names.insert(place.name).second)
      return CorruptError("'" + std::string(key) + "' has " + Quoted(place.name) + " twice");
    places->push_back(std::move(place));
  }
  return {};
}

JsonShape AttachmentShape() {
  JsonShape shape = JsonShape::Object({"format", "format_version", "live_map"});
  for (const std::string_view key : {"gate", "undo"}) shape.fields.push_back({key, JsonShape::Each({}, 4)});
  for (const std::string_view key : {"segments", "regions", "kept"}) {
    shape.fields.push_back({key, JsonShape::Each(JsonShape::Each({}, 5), kMaxAttachmentPlaces)});
  }
  return shape;
}

OrderedJson RowOf(const ExportedSegment& segment) {
  if (segment.kind == ExportedSegment::Kind::kSharedMemory) {
    return OrderedJson::array({kSharedMemory, segment.name, segment.byte_count});
  }
  return OrderedJson::array({kCudaIpc, segment.device, segment.name, segment.byte_count});
}

OrderedJson RowsOf(const std::vector<ExportedPlace>& places) {
  OrderedJson rows = OrderedJson::array();
  for (const ExportedPlace& place : places) {
    rows.push_back(OrderedJson::array({place.name, place.segment_index, place.offset_bytes}));
  }
  return rows;
}

}  // namespace

std::string WriteAttachmentJson(const Attachment& attachment) {
  OrderedJson json;
  json["format"] = kFormatName;
  json["format_version"] = kAttachmentVersion;
  json["live_map"] = attachment.live_map;
  json["segments"] = OrderedJson::array();
  for (const ExportedSegment& segment : attachment.segments) json["segments"].push_back(RowOf(segment));
  json["gate"] = OrderedJson::array({attachment.gate.segment_index, attachment.gate.offset_bytes});
  json["undo"] = OrderedJson::array();
  if (attachment.undo_bytes > 0) {
    json["undo"] = {attachment.undo.segment_index, attachment.undo.offset_bytes, attachment.undo_bytes};
  }
  json["regions"] = RowsOf(attachment.regions);
  json["kept"] = RowsOf(attachment.kept);
  return DumpJson(json) + "\n";
}

Result<Attachment> ParseAttachmentJson(std::string_view text) {
  if (text.size() > kMaxAttachmentBytes) return CorruptError("is longer than an attachment may be");
  XORBIT_ASSIGN_OR_RETURN(const Json json, ParseJson(text, AttachmentShape(), kMaxDepth));
  XORBIT_RETURN_IF_ERROR(ExpectFormat(json, kFormatName, kAttachmentVersion));
  XORBIT_RETURN_IF_ERROR(
      CheckCriticalFields(json, {"format", "format_version", "live_map", "segments", "gate", "undo", "regions", "kept"}));
  Attachment attachment;
  XORBIT_ASSIGN_OR_RETURN(attachment.live_map, GetString(json, "live_map"));
  XORBIT_ASSIGN_OR_RETURN(const Json* segments, GetArray(json, "segments"));
  for (const Json& row : *segments) {
    Result<ExportedSegment> segment = ParseSegment(row);
    if (!segment.ok()) return segment.status().WithContext("'segments' entry " + std::to_string(attachment.segments.size()));
    attachment.segments.push_back(std::move(*segment));
  }
  const size_t segment_count = attachment.segments.size();
  XORBIT_ASSIGN_OR_RETURN(const Json* gate, GetArray(json, "gate"));
  XORBIT_RETURN_IF_ERROR(ExpectRow(*gate, 2, "segment, offset").WithContext("'gate'"));
  XORBIT_RETURN_IF_ERROR(ParsePlaceAt(*gate, 0, segment_count, &attachment.gate).WithContext("'gate'"));
  XORBIT_ASSIGN_OR_RETURN(const Json* undo, GetArray(json, "undo"));
  if (!undo->empty()) {
    XORBIT_RETURN_IF_ERROR(ExpectRow(*undo, 3, "segment, offset, bytes").WithContext("'undo'"));
    XORBIT_RETURN_IF_ERROR(ParsePlaceAt(*undo, 0, segment_count, &attachment.undo).WithContext("'undo'"));
    XORBIT_ASSIGN_OR_RETURN(attachment.undo_bytes, AsUnsigned((*undo)[2], "the bytes of 'undo'"));
  }
  XORBIT_RETURN_IF_ERROR(ParsePlaces(json, "regions", segment_count, &attachment.regions));
  XORBIT_RETURN_IF_ERROR(ParsePlaces(json, "kept", segment_count, &attachment.kept));
  return attachment;
}

}  // namespace xorbit
