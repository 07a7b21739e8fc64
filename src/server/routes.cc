#include "server/routes.h"

#include "base/json.h"
#include "base/text.h"
#include "server/dispatch.h"
#include "server/handlers.h"
#include "server/reply.h"

namespace xorbit {
namespace {

constexpr std::string_view kNoEngine = "this server holds weights only: there is no engine that could do it";
constexpr std::string_view kNoCheckpoint =
    "weights live in memory here; use POST /update_weights_from_gpu_delta with target_version, or serve a checkpoint on the "
    "disk (--disk)";
constexpr std::string_view kNoOtherSource = "weights come from the stream alone; use POST /update_weights_from_gpu_delta";

constexpr Route kRoutes[] = {
    {"GET", "/health", Role::kOpen, HandleHealth, "200 once the sampler has caught up, 503 with the reason before"},
    {"GET", "/metrics", Role::kRead, HandleMetrics, "counts and gauges in Prometheus' text format"},
    {"GET", "/server_info", Role::kRead, HandleServerInfo, "what is served, from where, and how the last update went"},
    {"GET", "/model_info", Role::kRead, HandleModelInfo, "checkpoint and version"},
    {"GET", "/get_weight_version", Role::kRead, HandleWeightVersion, "the applied version"},
    {"GET", "/weight_info", Role::kRead, HandleWeightVersion, "the applied version, by vLLM's name"},
    {"POST", "/weights_checker", Role::kRead, HandleWeightsChecker,
     "reads all of live memory and compares its digest with the stream's"},
    {"GET", "/is_paused", Role::kRead, HandleIsPaused, "whether the gate is closed"},

    {"POST", "/pause_generation", Role::kAdmin, HandlePause, "closes the gate in front of the weights"},
    {"POST", "/continue_generation", Role::kAdmin, HandleContinue, "opens it"},
    {"POST", "/pause", Role::kAdmin, HandlePause, "closes the gate, by vLLM's name"},
    {"POST", "/resume", Role::kAdmin, HandleContinue, "opens it, by vLLM's name"},
    {"GET", "/flush_cache", Role::kAdmin, HandleFlushCache, "flushes the engine's cache, if there is an engine"},
    {"POST", "/flush_cache", Role::kAdmin, HandleFlushCache, "flushes the engine's cache, if there is an engine"},
    {"POST", "/update_weight_version", Role::kAdmin, HandleUpdateWeightVersion,
     "confirms the applied version; refuses any other label"},

    {"POST", "/get_gpu_delta_info", Role::kRead, HandleDeltaInfo, "who this participant is and what it holds"},
    {"POST", "/prepare_gpu_delta", Role::kAdmin, HandlePrepareDelta, "begins to fetch, verify and pre-flight an update"},
    {"POST", "/get_gpu_delta_status", Role::kRead, HandleDeltaStatus, "how a session stands"},
    {"POST", "/apply_gpu_delta", Role::kAdmin, HandleApplyDelta, "closes the gate, applies and checks"},
    {"POST", "/resume_gpu_delta", Role::kAdmin, HandleResumeDelta, "opens the gate"},
    {"POST", "/abort_gpu_delta", Role::kAdmin, HandleAbortDelta, "gives a session up before it is applied"},
    {"POST", "/update_weights_from_gpu_delta", Role::kAdmin, HandleUpdateFromDelta, "all of it in one call"},
    {"POST", "/clear_gpu_delta_state", Role::kAdmin, HandleClearDelta,
     "forgets a session that is over, and gives back what it has left for the next one"},

    {"POST", "/pull_weights", Role::kAdmin, nullptr, kNoCheckpoint},
    {"POST", "/update_weights_from_disk", Role::kAdmin, nullptr, kNoCheckpoint},
    {"POST", "/update_weights_from_tensor", Role::kAdmin, nullptr, kNoOtherSource},
    {"POST", "/update_weights_from_distributed", Role::kAdmin, nullptr, kNoOtherSource},
    {"POST", "/init_weights_update_group", Role::kAdmin, nullptr, kNoOtherSource},
    {"POST", "/init_weight_transfer_engine", Role::kAdmin, nullptr, kNoOtherSource},
    {"POST", "/start_weight_update", Role::kAdmin, nullptr, kNoOtherSource},
    {"POST", "/update_weights", Role::kAdmin, nullptr, kNoOtherSource},
    {"POST", "/finish_weight_update", Role::kAdmin, nullptr, kNoOtherSource},
    {"POST", "/release_memory_occupation", Role::kAdmin, nullptr, kNoEngine},
    {"POST", "/resume_memory_occupation", Role::kAdmin, nullptr, kNoEngine},
    {"POST", "/generate", Role::kRead, nullptr, kNoEngine},
    {"GET", "/health_generate", Role::kRead, nullptr, kNoEngine},
};

// Takes as long whatever the two have in common.
bool IsSameSecret(std::string_view given, std::string_view wanted) {
  if (given.size() != wanted.size()) return false;
  uint8_t difference = 0;
  for (size_t i = 0; i < given.size(); ++i) difference |= static_cast<uint8_t>(given[i] ^ wanted[i]);
  return difference == 0;
}

bool MayAsk(const AccessRules& access, Role role, std::string_view authorization) {
  if (role == Role::kOpen || (access.admin_token.empty() && access.read_token.empty())) return true;
  constexpr std::string_view kScheme = "Bearer ";
  if (!authorization.starts_with(kScheme)) return false;
  const std::string_view token = authorization.substr(kScheme.size());
  const auto is = [&](const std::string& wanted) { return !wanted.empty() && IsSameSecret(token, wanted); };
  return is(access.admin_token) || (role == Role::kRead && is(access.read_token));
}

// As stitch answers: the client asks another replica, or later.
HttpReply NotReadyReply(uint64_t wanted, std::optional<uint64_t> applied) {
  const std::string which = applied ? "version " + std::to_string(*applied) : std::string("nobody knows which version");
  return FailureReply(409, which + " is applied, not " + std::to_string(wanted),
                      OrderedJson{{"type", kVersionNotReady}, {"target_version", wanted}, {"applied", OrNull(applied)}});
}

HttpReply TooManyReply(const std::string& what, int64_t wait_seconds) {
  HttpReply reply = FailureReply(429, what + ": again after " + std::to_string(wait_seconds) + " s");
  reply.retry_after_seconds = wait_seconds;
  return reply;
}

}  // namespace

std::optional<HttpReply> RefuseRate(RateLimit& limit, size_t bucket) {
  const int64_t wait = limit.Take(bucket, std::chrono::steady_clock::now());
  return wait > 0 ? std::optional(TooManyReply("more requests than this server takes", wait)) : std::nullopt;
}

std::optional<HttpReply> RefuseCaller(const AccessRules& access, RateLimit& limit, Role role, const HttpRequest& request) {
  // Whoever has no token cannot use up the rate of those who have, nor that of /health.
  const bool may_ask = !request.of_web_page && MayAsk(access, role, request.authorization);
  if (auto refusal = RefuseRate(limit, may_ask ? static_cast<size_t>(role) : RateLimit::kStrangers)) return refusal;
  if (may_ask) return std::nullopt;
  // A browser lets any page send requests to this machine, tokens or not.
  if (request.of_web_page) return FailureReply(403, "requests from web pages are not answered");
  return FailureReply(401, "send the token of this server as 'Authorization: Bearer TOKEN'");
}

std::optional<HttpReply> CallSlot::Refuse() const {
  if (is_taken_) return std::nullopt;
  return TooManyReply(std::to_string(CallSlots::kCount) + " calls are under way", 1);
}

std::optional<HttpReply> RefuseVersion(const ControlFields& fields, std::optional<uint64_t> applied) {
  if (fields.exact_version && fields.exact_version != applied) return NotReadyReply(*fields.exact_version, applied);
  if (fields.min_version && (!applied || *fields.min_version > *applied)) return NotReadyReply(*fields.min_version, applied);
  return std::nullopt;
}

HttpReply NoRouteReply(const HttpRequest& request, bool is_known) {
  if (!is_known) return FailureReply(404, "there is no " + Quoted(request.path) + " here");
  return FailureReply(405, Quoted(request.path) + " is not asked by " + Quoted(request.method));
}

std::span<const Route> AllRoutes() { return kRoutes; }

HttpReply Dispatch(SamplerSession& session, const AccessRules& access, RateLimit& limit, const HttpRequest& request) {
  return DispatchTo<SamplerSession>(kRoutes, session, access, limit, request);
}

}  // namespace xorbit
