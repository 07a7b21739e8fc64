#include "base/json.h"

#include <algorithm>

namespace xorbit {
namespace {

std::string FieldName(std::string_view key) { return "field '" + std::string(key) + "'"; }

Status WrongType(std::string_view what, std::string_view expected) {
  return CorruptError(std::string(what) + " must be " + std::string(expected));
}

}  // namespace

JsonShape JsonShape::Object(std::initializer_list<std::string_view> keys) {
  JsonShape shape;
  for (const std::string_view key : keys) shape.fields.push_back({key, {}});
  shape.fields.push_back({"critical", Each({}, kMaxCriticalFields)});
  return shape;
}

JsonShape JsonShape::Each(JsonShape shape, uint64_t max_count) {
  return {.fields = {}, .each = std::make_shared<const JsonShape>(std::move(shape)), .max_count = max_count, .take = {}};
}

std::string DumpJson(const OrderedJson& json) {
  return json.dump(-1, ' ', /*ensure_ascii=*/false, OrderedJson::error_handler_t::replace);
}

Result<uint64_t> AsUnsigned(const Json& value, std::string_view what, uint64_t max) {
  if (!value.is_number_unsigned()) return WrongType(what, "a non-negative 64-bit integer");
  const auto number = value.get<uint64_t>();
  if (number > max) return CorruptError(std::string(what) + " must be at most " + std::to_string(max));
  return number;
}

Result<std::string> AsString(const Json& value, std::string_view what) {
  if (!value.is_string()) return WrongType(what, "a string");
  return value.get_ref<const std::string&>();
}

Result<bool> AsBool(const Json& value, std::string_view what) {
  if (!value.is_boolean()) return WrongType(what, "true or false");
  return value.get<bool>();
}

Status ExpectObject(const Json& value, std::string_view what) {
  return value.is_object() ? Status() : WrongType(what, "an object");
}

Status ExpectArray(const Json& value, std::string_view what) {
  return value.is_array() ? Status() : WrongType(what, "an array");
}

Result<const Json*> GetField(const Json& object, std::string_view key) {
  assert(object.is_object());
  const auto at = object.find(key);
  if (at == object.end()) return CorruptError(FieldName(key) + " is missing");
  return &*at;
}

Result<uint64_t> GetUnsigned(const Json& object, std::string_view key, uint64_t max) {
  XORBIT_ASSIGN_OR_RETURN(const Json* value, GetField(object, key));
  return AsUnsigned(*value, FieldName(key), max);
}

Status ExpectFormat(const Json& json, std::string_view format, uint32_t format_version) {
  XORBIT_RETURN_IF_ERROR(ExpectObject(json, "the whole"));
  XORBIT_ASSIGN_OR_RETURN(const std::string found, GetString(json, "format"));
  if (found != format) return CorruptError("field 'format' must be \"" + std::string(format) + "\"");
  XORBIT_ASSIGN_OR_RETURN(const uint64_t found_version, GetUnsigned(json, "format_version"));
  if (found_version != format_version) {
    return UnsupportedError("has format version " + std::to_string(found_version) +
                            ", which this xorbit does not read; a newer one may");
  }
  return {};
}

Result<std::string> GetString(const Json& object, std::string_view key) {
  XORBIT_ASSIGN_OR_RETURN(const Json* value, GetField(object, key));
  return AsString(*value, FieldName(key));
}

Result<bool> GetBool(const Json& object, std::string_view key) {
  XORBIT_ASSIGN_OR_RETURN(const Json* value, GetField(object, key));
  return AsBool(*value, FieldName(key));
}

Result<const Json*> GetObject(const Json& object, std::string_view key) {
  XORBIT_ASSIGN_OR_RETURN(const Json* value, GetField(object, key));
  XORBIT_RETURN_IF_ERROR(ExpectObject(*value, FieldName(key)));
  return value;
}

Result<const Json*> GetArray(const Json& object, std::string_view key) {
  XORBIT_ASSIGN_OR_RETURN(const Json* value, GetField(object, key));
  XORBIT_RETURN_IF_ERROR(ExpectArray(*value, FieldName(key)));
  return value;
}

Status CheckCriticalFields(const Json& object, std::initializer_list<std::string_view> known_fields) {
  if (!object.contains("critical")) return {};
  XORBIT_ASSIGN_OR_RETURN(const Json* critical, GetArray(object, "critical"));
  for (const Json& entry : *critical) {
    XORBIT_ASSIGN_OR_RETURN(const std::string field, AsString(entry, "an entry of 'critical'"));
    if (!object.contains(field)) return CorruptError("'critical' lists a field that is not there");
    if (std::find(known_fields.begin(), known_fields.end(), field) == known_fields.end()) {
      return UnsupportedError("needs a newer xorbit: it has a critical field that this version does not know");
    }
  }
  return {};
}

}  // namespace xorbit
