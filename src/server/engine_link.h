// The engine's side of a pause: what an SGLang or vLLM server is asked for around an update, by which calls, in which order.
// Pure planning; engine_memory.h makes the calls. The policy says what becomes of requests that are running and of keys and
// values that were computed under the old weights.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"

namespace xorbit {

enum class EngineKind : uint8_t { kSglang, kVllm };

enum class KvPolicy : uint8_t {
  kFlush,    // running requests begin again under the new weights; nothing that was computed under the old ones is used again
  kAbort,    // the same, but running requests are aborted
  kRetract,  // running requests begin again under the new weights; the cache of finished ones stays
  kKeep,     // all of it stays: requests go on with what the old weights have computed
};

// kUsage, listing what there is.
Result<EngineKind> ParseEngineKind(std::string_view name);
Result<KvPolicy> ParseKvPolicy(std::string_view name);
std::string_view NameOf(EngineKind kind);
std::string_view NameOf(KvPolicy policy);
// kUnsupported, with what to use instead, if this engine cannot.
Status CheckPolicy(EngineKind kind, KvPolicy policy);

// Whether the old weights' cache must be gone before the engine goes on.
bool MustFlush(KvPolicy policy);
// What requests must name (SGLang's extra_key, vLLM's cache_salt) so that they find no prefix of other weights: "" where the
// cache was flushed, and none can be found.
std::string CacheNamespace(KvPolicy policy, uint64_t version);

// Which replies mean that a call was done. Each needs a status of 2xx, and no JSON object that says "success": false.
enum class ReplyRule : uint8_t {
  kNoComplaint,      // that is all
  kObjectOrNothing,  // a JSON object, or 200 and no body: so that no page of something between passes for the engine
  kSaysSuccess,      // a JSON object with "success": true
};

struct EngineCall {
  std::string method;
  std::string path;
  std::string body;
  ReplyRule rule = ReplyRule::kNoComplaint;
  std::string_view if_absent = {};  // what to do about a server that has no such endpoint
};

EngineCall PauseCall(EngineKind kind, KvPolicy policy);
// By the name of a mode, SGLang's or vLLM's, for either engine; empty: as if it were not named. kUnsupported if there is
// nothing like it.
Result<EngineCall> PauseCallNamed(EngineKind kind, std::string_view mode);
EngineCall ContinueCall(EngineKind kind);
EngineCall FlushCall(EngineKind kind);
// Ends requests that keep a cache from being flushed.
EngineCall AbortAllCall(EngineKind kind);
// Tells the engine which version its replies are to name.
EngineCall LabelCall(EngineKind kind, uint64_t version);
// Asks which version its replies name.
EngineCall LabelQuestion(EngineKind kind);

// Asks which model it was started with.
EngineCall ModelQuestion();

struct ReloadOrder {
  bool flush_cache = true;
  bool abort_all_requests = false;
};
// Has it load the checkpoint. SGLang takes the path, which is UTF-8, flushes its cache and takes the label by the same call;
// vLLM is asked for what it was started with, which all of its releases can load again.
EngineCall LoadCall(EngineKind kind, const std::string& model_path, uint64_t version, const ReloadOrder& order);

}  // namespace xorbit
