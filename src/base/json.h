// Reading JSON that nobody vouches for: one strict parser and typed getters, so that every reader of every JSON format refuses
// the same things in the same words. The library underneath (nlohmann) throws; nothing here does.
//
// Include it from .cc files only: the library is large, and JSON is nobody's interface.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "base/status.h"

namespace xorbit {

using Json = nlohmann::json;                 // for reading: object fields ordered by key
using OrderedJson = nlohmann::ordered_json;  // for writing: fields stay in the order in which they were added

// Parses one JSON text (RFC 8259). kCorrupt for malformed text, invalid UTF-8, anything after the value, a key that an object
// repeats, and arrays and objects nested deeper than `max_depth` (1 allows a flat object). Memory is at most a small multiple
// of the text's size; the stack does not grow with the nesting.
Result<Json> ParseJson(std::string_view text, uint32_t max_depth);

// The text of `json`, without spaces. Strings that are not valid UTF-8 come out with U+FFFD in place of the bad bytes: a writer
// never throws, and what it wrote wrongly is caught by the reader's digests.
std::string DumpJson(const OrderedJson& json);

// Values, with `what` as the name in error messages. Each is kCorrupt if the value has another type. Numbers must be written as
// JSON integers without sign, fraction or exponent, at most `max`.
Result<uint64_t> AsUnsigned(const Json& value, std::string_view what, uint64_t max = UINT64_MAX);
Result<std::string> AsString(const Json& value, std::string_view what);
Result<bool> AsBool(const Json& value, std::string_view what);
Status ExpectObject(const Json& value, std::string_view what);
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
