// What the imitation engine answers: endpoints.h.
#include "engine/endpoints.h"

#include "base/json.h"

namespace xorbit::imitation {
namespace {

HttpReply Reply(int status, const OrderedJson& body) {
  HttpReply reply;
  reply.status = status;
  reply.body = DumpJson(body);
  return reply;
}

HttpReply Text(int status, const std::string& body) {
  HttpReply reply;
  reply.status = status;
  reply.content_type = "text/plain; charset=utf-8";
  reply.body = body;
  return reply;
}

HttpReply NoSuchMode(int status) { return Reply(status, {{"error", {{"message", "1 validation error"}}}}); }

std::string FieldOf(const std::string& body, const std::string& key) {
  const auto json = ParseJson(body, JsonShape::Object({"mode", "new_version"}), 2);
  if (!json.ok() || !json->is_object()) return {};
  const auto field = GetString(*json, key);
  return field.ok() ? *field : std::string();
}

HttpReply AnswerSglang(Scheduler& scheduler, const HttpRequest& request) {
  if (request.path == "/pause_generation") {
    const std::string mode = FieldOf(request.body, "mode");
    if (!mode.empty() && mode != "abort" && mode != "retract" && mode != "in_place") return NoSuchMode(422);
    scheduler.Pause(mode.empty() ? "abort" : mode == "in_place" ? "keep" : mode);
    return Reply(200, {{"message", "Generation paused successfully."}, {"status", "ok"}});
  }
  if (request.path == "/continue_generation") {
    scheduler.Continue();
    return Reply(200, {{"message", "Generation continued successfully."}, {"status", "ok"}});
  }
  if (request.path == "/flush_cache")
    return scheduler.Flush() ? Text(200, "Cache flushed.\n") : Text(400, "Flush cache failed.\n");
  if (request.path == "/abort_request") {
    scheduler.AbortAll();
    return Text(200, "");
  }
  if (request.path == "/model_info") return Reply(200, {{"weight_version", scheduler.label()}});
  return Reply(404, {{"detail", "Not Found"}});
}

HttpReply AnswerVllm(Scheduler& scheduler, const HttpRequest& request) {
  if (request.path == "/pause") {
    const std::string mode(QueryValue(request.query, "mode"));
    if (!mode.empty() && mode != "abort" && mode != "wait" && mode != "keep") return NoSuchMode(400);
    scheduler.Pause(mode.empty() ? "abort" : mode);
    // Whatever its own documentation says of "keep".
    if (QueryValue(request.query, "clear_cache") != "false") scheduler.RetractAndFlush();
    return Reply(200, {{"status", "paused"}});
  }
  if (request.path == "/resume") {
    scheduler.Continue();
    return Reply(200, {{"status", "resumed"}});
  }
  if (request.path == "/is_paused") return Reply(200, {{"is_paused", scheduler.is_paused()}});
  if (request.path == "/reset_prefix_cache") {
    if (QueryValue(request.query, "reset_running_requests") != "true") return Reply(200, {{"success", scheduler.Flush()}});
    scheduler.RetractAndFlush();
    return Reply(200, {{"success", true}});
  }
  if (request.path == "/weight_info") return Reply(200, {{"weight_version", scheduler.label()}});
  return Reply(404, {{"detail", "Not Found"}});
}

}  // namespace

HttpReply AnswerRequest(Scheduler& scheduler, bool is_vllm, const OwnPages& pages, const HttpRequest& request) {
  if (const auto page = pages.find(request.path); page != pages.end()) {
    HttpReply reply;
    reply.body = page->second();
    return reply;
  }
  if (request.path == "/health") return Text(200, "");
  if (request.path == "/update_weight_version") {
    const std::string label = FieldOf(request.body, "new_version");
    scheduler.Label(label);
    return Reply(200, {{"success", true}, {"new_version", label}});
  }
  return is_vllm ? AnswerVllm(scheduler, request) : AnswerSglang(scheduler, request);
}

}  // namespace xorbit::imitation
