#include "base/json.h"

#include <algorithm>
#include <vector>

#include "base/json_reader.h"

namespace xorbit {
namespace {

// Builds the value from the parser's events. The library's own builder keeps the last of several equal keys and has no depth
// limit.
class StrictBuilder final : public nlohmann::json_sax<Json> {
 public:
  explicit StrictBuilder(uint32_t max_depth) : max_depth_(max_depth) {}

  Json& root() { return root_; }
  const std::string& error() const { return error_; }

  bool null() override { return Add(Json(nullptr)); }
  bool boolean(bool value) override { return Add(Json(value)); }
  bool number_integer(number_integer_t value) override { return Add(Json(value)); }
  bool number_unsigned(number_unsigned_t value) override { return Add(Json(value)); }
  bool number_float(number_float_t value, const string_t&) override { return Add(Json(value)); }
  bool string(string_t& value) override { return Add(Json(std::move(value))); }
  bool binary(binary_t&) override { return Fail("is not JSON text"); }
  bool start_object(std::size_t) override { return Open(Json::object()); }
  bool start_array(std::size_t) override { return Open(Json::array()); }
  bool end_object() override { return Close(); }
  bool end_array() override { return Close(); }

  bool key(string_t& key) override {
    const auto [at, is_new] = open_.back()->emplace(key, nullptr);
    if (!is_new) return Fail("repeats a key in an object");
    pending_ = &*at;
    return true;
  }

  bool parse_error(std::size_t position, const std::string&, const nlohmann::detail::exception&) override {
    return Fail("is not valid JSON near byte " + std::to_string(position));
  }

 private:
  // Stores the value where the innermost open container wants it; returns null only after an error.
  Json* Store(Json value) {
    if (open_.empty()) {
      root_ = std::move(value);
      return &root_;
    }
    if (open_.back()->is_array()) {
      open_.back()->push_back(std::move(value));
      return &open_.back()->back();
    }
    *pending_ = std::move(value);
    return pending_;
  }

  bool Add(Json value) {
    Store(std::move(value));
    return true;
  }

  // Pointers on the stack stay valid: a container grows only while it is the innermost one.
  bool Open(Json container) {
    if (open_.size() == max_depth_) return Fail("is nested deeper than " + std::to_string(max_depth_) + " levels");
    open_.push_back(Store(std::move(container)));
    return true;
  }

  bool Close() {
    open_.pop_back();
    return true;
  }

  bool Fail(std::string why) {
    if (error_.empty()) error_ = std::move(why);
    return false;
  }

  uint32_t max_depth_;
  Json root_;
  std::vector<Json*> open_;
  Json* pending_ = nullptr;  // the value of the key read last, in the innermost object
  std::string error_;
};

std::string FieldName(std::string_view key) { return "field '" + std::string(key) + "'"; }

Status WrongType(std::string_view what, std::string_view expected) {
  return CorruptError(std::string(what) + " must be " + std::string(expected));
}

}  // namespace

Result<Json> ParseJson(std::string_view text, uint32_t max_depth) {
  XORBIT_RETURN_IF_ERROR(RefuseHiddenText(text));
  StrictBuilder builder(max_depth);
  bool parsed = false;
  try {
    parsed = Json::sax_parse(text, &builder);
  } catch (const std::exception&) {
    return CorruptError("is not valid JSON");
  }
  if (!parsed) return CorruptError(builder.error());
  return std::move(builder.root());
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
