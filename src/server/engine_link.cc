#include "server/engine_link.h"

#include <array>

#include "base/json.h"
#include "base/text.h"

namespace xorbit {
namespace {

constexpr std::array<std::string_view, 2> kKinds = {"sglang", "vllm"};
constexpr std::array<std::string_view, 4> kPolicies = {"flush", "abort", "retract", "keep"};

template <size_t kCount>
Result<uint8_t> IndexOf(const std::array<std::string_view, kCount>& names, std::string_view name, std::string_view what) {
  std::string all;
  for (size_t i = 0; i < kCount; ++i) {
    if (names[i] == name) return static_cast<uint8_t>(i);
    all += (i == 0 ? "" : ", ") + std::string(names[i]);
  }
  return UsageError(std::string(what) + " " + Quoted(name) + " is none of " + all);
}

std::string_view SglangMode(KvPolicy policy) {
  switch (policy) {
    case KvPolicy::kAbort:
      return "abort";
    case KvPolicy::kKeep:
      return "in_place";
    case KvPolicy::kFlush:
    case KvPolicy::kRetract:
      break;
  }
  return "retract";
}

constexpr std::string_view kDevelopmentMode =
    "start vLLM with VLLM_SERVER_DEV_MODE=1 in its environment: it offers this only then";

EngineCall VllmCall(std::string path, std::string body = "", ReplyRule rule = ReplyRule::kNoComplaint) {
  return {"POST", std::move(path), std::move(body), rule, kDevelopmentMode};
}

EngineCall SglangPause(std::string_view mode) {
  return {"POST", "/pause_generation", mode.empty() ? "{}" : R"({"mode":")" + std::string(mode) + R"("})"};
}

// "keep" freezes requests where they are. Unless it is told not to, vLLM clears its cache then and there, before new weights
// are in, and starts the requests again. "wait" is nothing for a trainer: it lasts as long as the longest answer, and vLLM
// turns new requests away meanwhile.
EngineCall VllmPause(bool aborts) { return VllmCall(aborts ? "/pause?mode=abort" : "/pause?mode=keep&clear_cache=false"); }

}  // namespace

std::string_view NameOf(EngineKind kind) { return kKinds[static_cast<uint8_t>(kind)]; }
std::string_view NameOf(KvPolicy policy) { return kPolicies[static_cast<uint8_t>(policy)]; }

Result<EngineKind> ParseEngineKind(std::string_view name) {
  XORBIT_ASSIGN_OR_RETURN(const uint8_t index, IndexOf(kKinds, name, "engine"));
  return static_cast<EngineKind>(index);
}

Result<KvPolicy> ParseKvPolicy(std::string_view name) {
  XORBIT_ASSIGN_OR_RETURN(const uint8_t index, IndexOf(kPolicies, name, "KV policy"));
  return static_cast<KvPolicy>(index);
}

Status CheckPolicy(EngineKind kind, KvPolicy policy) {
  if (kind != EngineKind::kVllm || policy != KvPolicy::kRetract) return {};
  return UnsupportedError("vLLM begins running requests again only when it flushes: use --kv flush");
}

bool MustFlush(KvPolicy policy) { return policy == KvPolicy::kFlush || policy == KvPolicy::kAbort; }

std::string CacheNamespace(KvPolicy policy, uint64_t version) {
  return MustFlush(policy) ? std::string() : "weights-" + std::to_string(version);
}

EngineCall PauseCall(EngineKind kind, KvPolicy policy) {
  return kind == EngineKind::kVllm ? VllmPause(policy == KvPolicy::kAbort) : SglangPause(SglangMode(policy));
}

Result<EngineCall> PauseCallNamed(EngineKind kind, std::string_view mode) {
  if (kind == EngineKind::kSglang) {
    if (mode == "wait") return UnsupportedError("SGLang cannot wait for running requests: use mode retract, in_place or abort");
    return SglangPause(mode == "keep" ? "in_place" : mode);
  }
  if (mode.empty() || mode == "abort") return VllmPause(true);
  return mode == "wait" ? VllmCall("/pause?mode=wait") : VllmPause(false);
}

EngineCall ContinueCall(EngineKind kind) {
  if (kind == EngineKind::kVllm) return VllmCall("/resume");
  return {"POST", "/continue_generation", R"({"torch_empty_cache":false})"};
}

EngineCall FlushCall(EngineKind kind) {
  // Without the query vLLM leaves what running requests hold, and up to 0.25 does not say so.
  if (kind == EngineKind::kVllm) return VllmCall("/reset_prefix_cache?reset_running_requests=true");
  return {"POST", "/flush_cache", ""};
}

EngineCall AbortAllCall(EngineKind kind) {
  if (kind == EngineKind::kVllm) return VllmPause(true);
  return {"POST", "/abort_request", R"({"rid":"","abort_all":true})"};
}

EngineCall LabelCall(EngineKind /*kind*/, uint64_t version) {
  return {"POST", "/update_weight_version",
          R"({"new_version":")" + std::to_string(version) + R"(","abort_all_requests":false})"};
}

EngineCall LabelQuestion(EngineKind kind) { return {"GET", kind == EngineKind::kVllm ? "/weight_info" : "/model_info", ""}; }

EngineCall ModelQuestion() { return {"GET", "/v1/models", ""}; }

EngineCall LoadCall(EngineKind kind, const std::string& model_path, uint64_t version, const ReloadOrder& order) {
  if (kind == EngineKind::kVllm) {
    return VllmCall("/collective_rpc", R"({"method":"reload_weights"})", ReplyRule::kObjectOrNothing);
  }
  const OrderedJson body = {{"model_path", model_path},
                            {"weight_version", std::to_string(version)},
                            {"flush_cache", order.flush_cache},
                            {"abort_all_requests", order.abort_all_requests}};
  return {"POST", "/update_weights_from_disk", DumpJson(body), ReplyRule::kSaysSuccess};
}

}  // namespace xorbit
