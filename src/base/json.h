// Reading JSON that nobody vouches for: one strict parser and typed getters, so that every reader of every JSON format refuses
// the same things in the same words. The library underneath (nlohmann) throws; nothing here does.
//
// Include it from .cc files only: the library is large, and JSON is nobody's interface.
#pragma once

#include <cstdint>
#include <functional>
#include <initializer_list>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"

namespace xorbit {

using Json = nlohmann::json;                 // for reading: object fields ordered by key
using OrderedJson = nlohmann::ordered_json;  // for writing: fields stay in the order in which they were added

// What a reader has a place for. Everything else is checked for syntax and dropped while it is read: memory follows what the
// reader knows and bounds, not what the text holds. A shape without fields and `each` is for strings, numbers and the like; an
// array or object in their place comes out empty, so that whoever looks finds the wrong type.
struct JsonShape {
  struct Field;
  using Take = std::function<Status(const std::string& key, Json value)>;

  std::vector<Field> fields;              // of an object, by name
  std::shared_ptr<const JsonShape> each;  // of an array's elements, or of an object's fields that `fields` does not name
  uint64_t max_count = 0;                 // of what `each` describes; more is kCorrupt
  // Gets each value of this shape as soon as it is complete (and its key, in an object); it is not kept then. An error ends the
  // reading. Keys that repeat are the taker's business. The whole text's value is not taken.
  Take take;

  // An object with these fields, none of which holds an array or object, and "critical" (CheckCriticalFields).
  static JsonShape Object(std::initializer_list<std::string_view> keys);
  // Arrays (or objects with any keys) of up to `max_count` values of a shape.
  static JsonShape Each(JsonShape shape, uint64_t max_count);
};
struct JsonShape::Field {
  std::string_view key;
  JsonShape shape;
};

// Names of fields without a place are kept, with null, because "critical" may list them: this many in an object.
inline constexpr uint64_t kMaxUnknownJsonFields = 64;
inline constexpr uint64_t kMaxCriticalFields = 64;

// Parses one JSON text (RFC 8259). kCorrupt for malformed text, invalid UTF-8, anything after the value, a key that a kept
// object repeats, more values or unknown fields than the shape allows, and arrays and objects nested deeper than `max_depth` (1
// allows a flat object). The stack does not grow with the nesting.
Result<Json> ParseJson(std::string_view text, const JsonShape& shape, uint32_t max_depth);

// The text of `json`, without spaces. Strings that are not valid UTF-8 come out with U+FFFD in place of the bad bytes: a writer
// never throws, and what it wrote wrongly is caught by the reader's digests.
std::string DumpJson(const OrderedJson& json);

// Values, with `what` as the name in error messages. Each is kCorrupt if the value has another type. Numbers must be written as
// JSON integers without sign, fraction or exponent, at most `max`.
Result<uint64_t> AsUnsigned(const Json& value, std::string_view what, uint64_t max = UINT64_MAX);
Result<std::string> AsString(const Json& value, std::string_view what);
Result<bool> AsBool(const Json& value, std::string_view what);
Status ExpectObject(const Json& value, std::string_view what);
// That a file's whole is an object whose "format" and "format_version" are these. kCorrupt; kUnsupported for another version.
Status ExpectFormat(const Json& json, std::string_view format, uint32_t format_version);
Status ExpectArray(const Json& value, std::string_view what);

// Fields of an object; also kCorrupt if the field is missing. `object` must be a JSON object.
Result<const Json*> GetField(const Json& object, std::string_view key);
Result<uint64_t> GetUnsigned(const Json& object, std::string_view key, uint64_t max = UINT64_MAX);
Result<std::string> GetString(const Json& object, std::string_view key);
Result<bool> GetBool(const Json& object, std::string_view key);
Result<const Json*> GetObject(const Json& object, std::string_view key);
Result<const Json*> GetArray(const Json& object, std::string_view key);

// The rule for fields from later versions of a format: unknown ones are ignored, unless the object's "critical" array lists
// them; then the reader would misunderstand the whole and answers kUnsupported. "critical" itself must be an array of strings
// that name fields of the object.
Status CheckCriticalFields(const Json& object, std::initializer_list<std::string_view> known_fields);

}  // namespace xorbit
