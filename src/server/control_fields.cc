#include "server/control_fields.h"

#include <algorithm>
#include <charconv>
#include <iterator>

#include "base/json.h"
#include "base/text.h"
#include "transport/http_message.h"

namespace xorbit {
namespace {

constexpr uint32_t kMaxDepth = 6;
constexpr size_t kMaxTextBytes = 4096;  // of any one field

JsonShape BodyShape() {
  JsonShape shape = JsonShape::Object({"session_id",  "engine_id",          "manifest_path",   "manifest_sha256",
                                       "stream_id",   "plan_digest",        "base_version",    "target_version",
                                       "flush_cache", "abort_all_requests", "release_state",   "validate_payload_hash",
                                       "keep_pause",  "is_current",         "reason",          "mode",
                                       "action",      "new_version",        "lease_ms",        "local_checkpoint_dir",
                                       "source_dir",  "model_path",         "base_fingerprint"});
  JsonShape participant;
  participant.fields.push_back({"identity", JsonShape::Object({"engine_id", "pid", "start_ticks"})});
  shape.fields.push_back({"participants", JsonShape::Each(std::move(participant), kMaxParticipants)});
  shape.fields.push_back({"weight_version", JsonShape::Object({"min_version", "exact_version"})});
  return shape;
}

// The field, unless it is not there or null.
const Json* Find(const Json& object, std::string_view key) {
  const auto found = object.find(key);
  return found == object.end() || found->is_null() ? nullptr : &*found;
}

Status ReadText(const Json& object, std::string_view key, std::string* text) {
  const Json* value = Find(object, key);
  if (value == nullptr) return {};
  XORBIT_ASSIGN_OR_RETURN(*text, AsString(*value, key));
  if (text->size() > kMaxTextBytes) return CorruptError(std::string(key) + " is longer than 4096 bytes");
  return {};
}
Status ReadText(const Json& object, std::string_view key, std::optional<std::string>* text) {
  if (Find(object, key) == nullptr) return {};
  return ReadText(object, key, &text->emplace());
}
Status ReadNumber(const Json& object, std::string_view key, std::optional<uint64_t>* number) {
  const Json* value = Find(object, key);
  if (value == nullptr) return {};
  XORBIT_ASSIGN_OR_RETURN(*number, AsUnsigned(*value, key));
  return {};
}
Status ReadBool(const Json& object, std::string_view key, bool* flag) {
  const Json* value = Find(object, key);
  if (value == nullptr) return {};
  XORBIT_ASSIGN_OR_RETURN(*flag, AsBool(*value, key));
  return {};
}

// A number, that number in quotes, or "latest".
Status ReadTarget(const Json& object, ControlFields* fields) {
  const Json* value = Find(object, "target_version");
  if (value == nullptr) return {};
  if (!value->is_string()) return ReadNumber(object, "target_version", &fields->target_version);
  const auto& text = value->get_ref<const std::string&>();
  if (text == "latest") {
    fields->wants_latest = true;
    return {};
  }
  uint64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || end != text.data() + text.size()) {
    return CorruptError("target_version is neither a number nor \"latest\"");
  }
  fields->target_version = number;
  return {};
}

Status ReadParticipants(const Json& object, ControlFields* fields) {
  const Json* values = Find(object, "participants");
  if (values == nullptr) return {};
  XORBIT_RETURN_IF_ERROR(ExpectArray(*values, "participants"));
  for (const Json& value : *values) {
    XORBIT_RETURN_IF_ERROR(ExpectObject(value, "a participant"));
    XORBIT_ASSIGN_OR_RETURN(const Json* identity, GetObject(value, "identity"));
    Participant participant;
    XORBIT_RETURN_IF_ERROR(ReadText(*identity, "engine_id", &participant.engine_id));
    XORBIT_ASSIGN_OR_RETURN(participant.pid, GetUnsigned(*identity, "pid"));
    XORBIT_ASSIGN_OR_RETURN(participant.start_ticks, GetUnsigned(*identity, "start_ticks"));
    fields->participants.push_back(std::move(participant));
  }
  return {};
}

Status ReadBody(const Json& body, ControlFields* fields) {
  XORBIT_RETURN_IF_ERROR(ExpectObject(body, "the body"));
  XORBIT_RETURN_IF_ERROR(ReadText(body, "session_id", &fields->session_id));
  XORBIT_RETURN_IF_ERROR(ReadText(body, "engine_id", &fields->engine_id));
  XORBIT_RETURN_IF_ERROR(ReadText(body, "manifest_path", &fields->manifest_path));
  XORBIT_RETURN_IF_ERROR(ReadText(body, "manifest_sha256", &fields->manifest_sha256));
  XORBIT_RETURN_IF_ERROR(ReadText(body, "stream_id", &fields->stream_id));
  XORBIT_RETURN_IF_ERROR(ReadText(body, "base_fingerprint", &fields->base_fingerprint));
  XORBIT_RETURN_IF_ERROR(ReadText(body, "plan_digest", &fields->plan_digest));
  XORBIT_RETURN_IF_ERROR(ReadText(body, "mode", &fields->mode));
  XORBIT_RETURN_IF_ERROR(ReadText(body, "reason", &fields->reason));
  XORBIT_RETURN_IF_ERROR(ReadText(body, "action", &fields->action));
  XORBIT_RETURN_IF_ERROR(ReadText(body, "new_version", &fields->new_version));
  XORBIT_RETURN_IF_ERROR(ReadNumber(body, "base_version", &fields->base_version));
  XORBIT_RETURN_IF_ERROR(ReadTarget(body, fields));
  if (const Json* lease = Find(body, "lease_ms")) {
    XORBIT_ASSIGN_OR_RETURN(fields->lease_ms, AsUnsigned(*lease, "lease_ms", kMaxLeaseMs));
  }
  XORBIT_RETURN_IF_ERROR(ReadBool(body, "keep_pause", &fields->keep_pause));
  XORBIT_RETURN_IF_ERROR(ReadText(body, "local_checkpoint_dir", &fields->local_checkpoint_dir));
  XORBIT_RETURN_IF_ERROR(ReadText(body, "source_dir", &fields->source_dir));
  XORBIT_RETURN_IF_ERROR(ReadText(body, "model_path", &fields->model_path));
  XORBIT_RETURN_IF_ERROR(ReadBool(body, "flush_cache", &fields->flush_cache));
  XORBIT_RETURN_IF_ERROR(ReadBool(body, "abort_all_requests", &fields->abort_all_requests));
  XORBIT_RETURN_IF_ERROR(ReadBool(body, "release_state", &fields->release_state));
  XORBIT_RETURN_IF_ERROR(ReadBool(body, "validate_payload_hash", &fields->validate_payload_hash));
  XORBIT_RETURN_IF_ERROR(ReadBool(body, "is_current", &fields->is_current));
  XORBIT_RETURN_IF_ERROR(ReadParticipants(body, fields));
  const Json* wanted = Find(body, "weight_version");
  if (wanted != nullptr && wanted->is_string()) return ReadText(body, "weight_version", &fields->label);
  if (wanted == nullptr || !wanted->is_object()) return {};
  XORBIT_RETURN_IF_ERROR(ReadNumber(*wanted, "min_version", &fields->min_version));
  return ReadNumber(*wanted, "exact_version", &fields->exact_version);
}

}  // namespace

Result<ControlFields> ParseControlFields(std::string_view body, std::string_view query) {
  ControlFields fields;
  fields.mode = QueryValue(query, "mode");
  fields.action = QueryValue(query, "action");
  if (body.empty()) return fields;
  const Result<Json> json = ParseJson(body, BodyShape(), kMaxDepth);
  if (!json.ok()) return json.status().WithContext("the body");
  XORBIT_RETURN_IF_ERROR(ReadBody(*json, &fields));
  return fields;
}

Status CheckPauseMode(std::string_view mode) {
  constexpr std::string_view kModes[] = {"", "abort", "retract", "in_place", "wait", "keep"};
  if (std::ranges::find(kModes, mode) != std::end(kModes)) return {};
  return UsageError("mode " + Quoted(mode) + " is none of abort, retract, in_place, wait, keep");
}

}  // namespace xorbit
