#include "server/engine_call.h"

#include "base/json.h"
#include "base/text.h"

namespace xorbit {
namespace {

constexpr uint32_t kReplyDepth = 16;
constexpr uint64_t kMaxModels = 10'000;  // every adapter is one

// Null if the body is no JSON object.
Json ObjectOf(const HttpReply& reply) {
  const Result<Json> json = ParseJson(reply.body, JsonShape::Object({"success", "weight_version"}), kReplyDepth);
  return json.ok() && json->is_object() ? *json : Json();
}

bool MeansDone(ReplyRule rule, const HttpReply& reply) {
  if (reply.status < 200 || reply.status > 299) return false;
  const Json object = ObjectOf(reply);
  const Json success = object.is_object() && object.contains("success") ? object["success"] : Json();
  switch (rule) {
    case ReplyRule::kSaysSuccess:
      return success.is_boolean() && success.get<bool>();
    case ReplyRule::kObjectOrNothing:
      if (!object.is_object() && !(reply.status == 200 && reply.body.empty())) return false;
      break;
    case ReplyRule::kNoComplaint:
      break;
  }
  return success.is_null() || (success.is_boolean() && success.get<bool>());
}

std::string NameOf(const EngineCall& call) { return "the engine's " + call.path; }

std::string Answered(const EngineCall& call, const HttpReply& reply) {
  return NameOf(call) + " answered " + std::to_string(reply.status) + ": " + Quoted(reply.body);
}

bool IsTurnedAway(int status) { return status == 401 || status == 403; }

}  // namespace

Result<HttpReply> CallEngineServer(const EngineAddress& engine, const EngineCall& call, HttpDeadline deadline) {
  HttpCall http;
  http.method = call.method;
  http.path = call.path;
  http.body = call.body;
  http.token = engine.token;
  http.sync_id = engine.sync_id;
  Result<HttpReply> reply = CallHttp(engine.endpoint, http, deadline);
  if (!reply.ok()) return reply.status().WithContext(NameOf(call));
  return reply;
}

Status AskEngine(const EngineAddress& engine, const EngineCall& call, HttpDeadline deadline) {
  XORBIT_ASSIGN_OR_RETURN(const HttpReply reply, CallEngineServer(engine, call, deadline));
  return CheckReply(call, reply);
}

Status CheckReply(const EngineCall& call, const HttpReply& reply) {
  if (MeansDone(call.rule, reply)) return {};
  const std::string what = Answered(call, reply);
  if (IsTurnedAway(reply.status)) return RefusedError(what + "; name the file with the engine's key by --engine-token-file");
  if (reply.status == 404 && !call.if_absent.empty()) return UnsupportedError(what + "; " + std::string(call.if_absent));
  return RefusedError(what);
}

Status CheckKey(const EngineCall& call, const HttpReply& reply) {
  return IsTurnedAway(reply.status) ? CheckReply(call, reply) : Status();
}

Result<std::optional<std::string>> LabelIn(const EngineCall& question, const HttpReply& reply) {
  constexpr int kNoSuchEndpoint = 404;
  if (reply.status == kNoSuchEndpoint) return std::optional<std::string>();
  XORBIT_RETURN_IF_ERROR(CheckReply(question, reply));
  const Json object = ObjectOf(reply);
  if (!object.is_object()) return RefusedError(Answered(question, reply));
  const Json label = object.contains("weight_version") ? object["weight_version"] : Json();
  if (label.is_null()) return std::optional<std::string>();
  // Only text is ever told to an engine; whatever else it names is a name all the same, and not that.
  return std::optional(label.is_string() ? label.get<std::string>() : DumpJson(label));
}

std::optional<std::string> ModelIn(const HttpReply& reply) {
  JsonShape shape = JsonShape::Object({});
  shape.fields.push_back({"data", JsonShape::Each(JsonShape::Object({"root"}), kMaxModels)});
  const Result<Json> json = ParseJson(reply.body, shape, kReplyDepth);
  if (reply.status != 200 || !json.ok() || !json->is_object()) return std::nullopt;
  const auto models = GetArray(*json, "data");
  if (!models.ok() || (*models)->empty() || !(**models)[0].is_object()) return std::nullopt;
  const auto root = GetString((**models)[0], "root");
  return root.ok() ? std::optional(*root) : std::nullopt;
}

}  // namespace xorbit
