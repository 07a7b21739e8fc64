#include "drive/engine_caller.h"

#include <algorithm>

#include "base/json.h"

namespace xorbit {
namespace {

// One recovery may take longer: then its call is given up, and asked for again once the engine is no longer busy with it.
constexpr int64_t kMaxRecoverCallMs = 30'000;

std::string_view PathOf(DriveStep step) {
  switch (step) {
    case DriveStep::kAsk:
      return "/get_gpu_delta_info";
    case DriveStep::kRecover:
      return "/update_weights_from_gpu_delta";
    case DriveStep::kContinue:
      return "/continue_generation";
    case DriveStep::kPrepare:
      return "/prepare_gpu_delta";
    case DriveStep::kPoll:
      return "/get_gpu_delta_status";
    case DriveStep::kApply:
      return "/apply_gpu_delta";
    case DriveStep::kResume:
      return "/resume_gpu_delta";
    case DriveStep::kAbort:
      return "/abort_gpu_delta";
    case DriveStep::kFence:
      return "/pause_generation";
    case DriveStep::kWait:
    case DriveStep::kOver:
      break;
  }
  return {};
}

OrderedJson BodyOf(const DriveOrder& order, const CallerOptions& options, const DriveRules& rules) {
  switch (order.step) {
    case DriveStep::kRecover:
      return {{"target_version", order.version},
              {"stream_id", options.stream.stream_id},
              {"base_fingerprint", options.stream.base_fingerprint},
              {"is_current", true}};
    case DriveStep::kPrepare: {
      const OrderedJson identity = {
          {"engine_id", order.identity.engine_id}, {"pid", order.identity.pid}, {"start_ticks", order.identity.start_ticks}};
      return {{"session_id", order.session_id},
              {"stream_id", options.stream.stream_id},
              {"base_fingerprint", options.stream.base_fingerprint},
              {"base_version", order.base_version},
              {"target_version", order.version},
              {"lease_ms", rules.lease_ms},
              {"is_current", true},
              {"participants", OrderedJson::array({OrderedJson{{"identity", identity}}})}};
    }
    case DriveStep::kPoll:
    case DriveStep::kApply:
    case DriveStep::kResume:
    case DriveStep::kAbort:
      return {{"session_id", order.session_id}};
    case DriveStep::kFence:
      return {{"mode", "retract"}, {"reason", "it did not come along to version " + std::to_string(order.version)}};
    default:
      return OrderedJson::object();
  }
}

int64_t LimitMsOf(DriveStep step, const DriveRules& rules) {
  if (step == DriveStep::kRecover) return std::min(rules.prepare_ms, kMaxRecoverCallMs);
  return MayTakeLong(step) ? rules.apply_ms : rules.silence_ms;
}

}  // namespace

EngineReply CallEngine(const DrivenAddress& engine, const CallerOptions& options, const DriveRules& rules,
                       const DriveOrder& order, const std::string& sync_id) {
  HttpCall call;
  call.path = PathOf(order.step);
  call.body = DumpJson(BodyOf(order, options, rules));
  call.token = options.token;
  call.sync_id = sync_id;
  const auto limit = std::chrono::milliseconds(LimitMsOf(order.step, rules));
  const Result<HttpReply> reply = CallHttp(engine.endpoint, call, std::chrono::steady_clock::now() + limit);
  EngineReply read = ReadEngineReply(reply);
  if (reply.ok() && reply->status == 401) {
    read.message = options.token.empty() ? "it wants its admin token (401): name the file that holds it by --token-file"
                                         : "the token of --token-file is not its admin token (401)";
  }
  return read;
}

}  // namespace xorbit
