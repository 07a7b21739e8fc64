// layouts/<digest>.json (docs/formats/manifest.md, "Layout"). A model has up to hundreds of thousands of tensors, so each is
// one short row instead of an object with spelled-out fields.
#include <algorithm>

#include "base/checksum_field.h"
#include "payload/json_fields.h"

namespace xorbit {
namespace {

constexpr std::string_view kFormatName = "xorbit-layout";

Result<TensorSpec> ParseRow(const Json& row) {
  XORBIT_RETURN_IF_ERROR(ExpectArray(row, "the entry"));
  if (row.size() != 3 && row.size() != 4)
    return CorruptError("the entry must be [name, dtype, shape] or [name, dtype, shape, marks]");
  TensorSpec tensor;
  XORBIT_ASSIGN_OR_RETURN(tensor.name, AsString(row[0], "the name"));
  XORBIT_ASSIGN_OR_RETURN(const std::string dtype_name, AsString(row[1], "the dtype"));
  const auto dtype = ParseDtype(dtype_name);
  if (!dtype) return UnsupportedError("the dtype is not one that this xorbit knows");
  tensor.dtype = *dtype;
  XORBIT_RETURN_IF_ERROR(ExpectArray(row[2], "the shape"));
  for (const Json& dimension : row[2]) {
    XORBIT_ASSIGN_OR_RETURN(const uint64_t dim, AsUnsigned(dimension, "a dimension"));
    tensor.shape.push_back(dim);
  }
  if (row.size() == 3) return tensor;
  const Json& marks = row[3];
  XORBIT_RETURN_IF_ERROR(ExpectObject(marks, "the marks"));
  XORBIT_RETURN_IF_ERROR(CheckCriticalFields(marks, {"group", "frozen"}));
  if (marks.contains("group")) {
    XORBIT_ASSIGN_OR_RETURN(const uint64_t group, GetUnsigned(marks, "group", kMaxGroups - 1));
    tensor.group = static_cast<uint32_t>(group);
  }
  if (marks.contains("frozen")) {
    XORBIT_ASSIGN_OR_RETURN(tensor.frozen, GetBool(marks, "frozen"));
  }
  return tensor;
}

Result<std::vector<std::string>> ParseGroups(const Json& json) {
  XORBIT_ASSIGN_OR_RETURN(const Json* entries, GetArray(json, "groups"));
  if (entries->empty()) return CorruptError("field 'groups' must have 1 to " + std::to_string(kMaxGroups) + " entries");
  std::vector<std::string> groups;
  for (const Json& entry : *entries) {
    XORBIT_ASSIGN_OR_RETURN(std::string group, AsString(entry, "an entry of 'groups'"));
    if (std::find(groups.begin(), groups.end(), group) != groups.end()) return CorruptError("field 'groups' repeats a name");
    groups.push_back(std::move(group));
  }
  return groups;
}

// Takes the rows one by one, so that no tree of a long list is built. Keeps the first error for when the format is known.
class RowReader {
 public:
  void Take(const Json& row) {
    if (!status_.ok()) return;
    auto tensor = ParseRow(row);
    if (!tensor.ok()) {
      status_ = tensor.status().WithContext("tensor " + std::to_string(tensors_.size()));
    } else if (!tensors_.empty() && tensors_.back().name >= tensor->name) {
      status_ = CorruptError("tensors do not ascend by name");
    } else {
      tensors_.push_back(std::move(tensor).value());
    }
  }
  Result<std::vector<TensorSpec>> Finish() {
    XORBIT_RETURN_IF_ERROR(status_);
    return std::move(tensors_);
  }

 private:
  Status status_;
  std::vector<TensorSpec> tensors_;
};

JsonShape LayoutShape(RowReader* rows) {
  // A value of a row is a name, a dtype, a shape or the marks; ParseRow tells which must be which.
  JsonShape value = JsonShape::Object({"group", "frozen"});
  value.each = std::make_shared<const JsonShape>();
  value.max_count = Layout::kMaxRank;
  JsonShape row = JsonShape::Each(std::move(value), 5);  // one more than may be, for ParseRow to refuse
  row.take = [rows](const std::string&, const Json& json) {
    rows->Take(json);
    return Status();
  };
  JsonShape layout = JsonShape::Object({});
  layout.fields.push_back({"groups", JsonShape::Each({}, kMaxGroups)});
  layout.fields.push_back({"tensors", JsonShape::Each(std::move(row), UINT64_MAX)});
  return layout;
}

Result<Layout> ParseFields(const Json& json, RowReader* reader) {
  XORBIT_RETURN_IF_ERROR(CheckCriticalFields(json, {"format", "format_version", "groups", "tensors"}));
  XORBIT_ASSIGN_OR_RETURN(std::vector<std::string> groups, ParseGroups(json));
  XORBIT_RETURN_IF_ERROR(GetArray(json, "tensors").status());
  XORBIT_ASSIGN_OR_RETURN(std::vector<TensorSpec> tensors, reader->Finish());
  return Layout::Make(std::move(tensors), std::move(groups));
}

}  // namespace

std::string WriteLayoutJson(const Layout& layout) {
  OrderedJson json;
  json["format"] = kFormatName;
  json["format_version"] = kLayoutFormatVersion;
  json["groups"] = layout.groups();
  OrderedJson& rows = json["tensors"] = OrderedJson::array();
  for (const TensorSpec& tensor : layout.tensors()) {
    OrderedJson row = OrderedJson::array({tensor.name, NameOf(tensor.dtype), tensor.shape});
    if (tensor.group != 0 || tensor.frozen) {
      OrderedJson marks = OrderedJson::object();
      if (tensor.group != 0) marks["group"] = tensor.group;
      if (tensor.frozen) marks["frozen"] = true;
      row.push_back(std::move(marks));
    }
    rows.push_back(std::move(row));
  }
  return WithChecksum(DumpJson(json) + "\n");
}

Result<Layout> ParseLayoutJson(std::string_view text) {
  RowReader rows;
  XORBIT_ASSIGN_OR_RETURN(const Json json, ParseDocument(text, LayoutShape(&rows), kFormatName, kLayoutFormatVersion));
  return ParseFields(json, &rows);
}

Result<Layout> ParseLayoutJson(std::string_view text, const Sha256Digest& expected_digest) {
  XORBIT_RETURN_IF_ERROR(CheckChecksum(text));
  XORBIT_ASSIGN_OR_RETURN(Layout layout, ParseLayoutJson(text));
  if (layout.digest() != expected_digest) return CorruptError("holds another layout than its name says");
  return layout;
}

}  // namespace xorbit
