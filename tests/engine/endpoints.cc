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

HttpReply Done() { return Reply(200, {{"success", true}}); }

std::string FieldOf(const std::string& body, const std::string& key) {
  const auto json = ParseJson(body, JsonShape::Object({"mode", "new_version"}), 2);
  if (!json.ok() || !json->is_object()) return {};
  const auto field = GetString(*json, key);
  return field.ok() ? *field : std::string();
}

HttpReply AnswerSglang(Scheduler& scheduler, const HttpRequest& request) {
  if (request.path == "/pause_generation") {
    const std::string mode = FieldOf(request.body, "mode");
    const uint64_t count = scheduler.Pause(mode.empty() ? "abort" : mode == "in_place" ? "keep" : mode);
    return Reply(200, {{"success", true}, {"num_paused_requests", count}});
  }
  if (request.path == "/continue_generation") {
    scheduler.Continue();
    return Done();
  }
  if (request.path == "/flush_cache") {
    return scheduler.Flush() ? Done()
                             : Reply(400, {{"success", false}, {"message", "Cache not flushed: requests are pending"}});
  }
  if (request.path == "/abort_request") {
    scheduler.AbortAll();
    return Done();
  }
  if (request.path == "/model_info") return Reply(200, {{"weight_version", scheduler.label()}});
  return Reply(404, {{"detail", "Not Found"}});
}

HttpReply AnswerVllm(Scheduler& scheduler, const HttpRequest& request) {
  if (request.path == "/pause") {
    scheduler.Pause(std::string(QueryValue(request.query, "mode")));
    return Done();
  }
  if (request.path == "/resume") {
    scheduler.Continue();
    return Done();
  }
  if (request.path == "/is_paused") return Reply(200, {{"is_paused", scheduler.is_paused()}});
  if (request.path == "/reset_prefix_cache") return scheduler.Flush() ? Done() : Reply(409, {{"detail", "blocks are in use"}});
  if (request.path == "/weight_info") return Reply(200, {{"weight_version", scheduler.label()}});
  return Reply(404, {{"detail", "Not Found"}});
}

}  // namespace

HttpReply AnswerRequest(Scheduler& scheduler, bool is_vllm, const std::function<std::string()>& state,
                        const HttpRequest& request) {
  if (request.path == "/imitation_state") {
    HttpReply reply;
    reply.body = state();
    return reply;
  }
  if (request.path == "/health") return Done();
  if (request.path == "/update_weight_version") {
    scheduler.Label(FieldOf(request.body, "new_version"));
    return Done();
  }
  return is_vllm ? AnswerVllm(scheduler, request) : AnswerSglang(scheduler, request);
}

}  // namespace xorbit::imitation
