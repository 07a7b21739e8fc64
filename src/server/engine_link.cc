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

std::string_view VllmMode(KvPolicy policy) {
  if (policy == KvPolicy::kAbort) return "abort";
  return policy == KvPolicy::kKeep ? "keep" : "wait";
}

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
  return UnsupportedError("vLLM cannot retract running requests: use --kv flush, which waits for them, or --kv abort");
}

bool MustFlush(KvPolicy policy) { return policy == KvPolicy::kFlush || policy == KvPolicy::kAbort; }

std::string CacheNamespace(KvPolicy policy, uint64_t version) {
  return MustFlush(policy) ? std::string() : "weights-" + std::to_string(version);
}

EngineCall PauseCall(EngineKind kind, KvPolicy policy) {
  if (kind == EngineKind::kVllm) return {"POST", "/pause?mode=" + std::string(VllmMode(policy)), ""};
  return {"POST", "/pause_generation", R"({"mode":")" + std::string(SglangMode(policy)) + R"("})"};
}

EngineCall ContinueCall(EngineKind kind) {
  if (kind == EngineKind::kVllm) return {"POST", "/resume", ""};
  return {"POST", "/continue_generation", R"({"torch_empty_cache":false})"};
}

EngineCall FlushCall(EngineKind kind) {
  return {"POST", kind == EngineKind::kVllm ? "/reset_prefix_cache" : "/flush_cache", ""};
}

EngineCall AbortAllCall(EngineKind kind) {
  if (kind == EngineKind::kVllm) return {"POST", "/pause?mode=abort", ""};
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
    return {"POST", "/collective_rpc", R"({"method":"reload_weights"})", ReplyRule::kObjectOrNothing};
  }
  const OrderedJson body = {{"model_path", model_path},
                            {"weight_version", std::to_string(version)},
                            {"flush_cache", order.flush_cache},
                            {"abort_all_requests", order.abort_all_requests}};
  return {"POST", "/update_weights_from_disk", DumpJson(body), ReplyRule::kSaysSuccess};
}

}  // namespace xorbit
