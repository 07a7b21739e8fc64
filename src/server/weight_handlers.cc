// What SGLang's and vLLM's clients ask of a server around an update. Where there is less here than in an engine the reply says
// so.
#include "base/json.h"
#include "base/text.h"
#include "server/handlers.h"
#include "server/reply.h"

namespace xorbit {
namespace {

std::string VersionText(const SamplerSession& session) { return std::to_string(session.version()); }

OrderedJson EngineJson(const SamplerSession& session) {
  const EngineMemory* engine = session.options().engine;
  if (engine == nullptr) return nullptr;
  return {{"kind", NameOf(engine->options().kind)}, {"url", engine->options().url}};
}

// What the last pause has meant for requests and what they had cached.
OrderedJson CacheJson(const SamplerSession& session) {
  const EngineMemory* engine = session.options().engine;
  if (engine == nullptr) return nullptr;
  const EnginePause pause = engine->last_pause();
  OrderedJson json = {
      {"policy", NameOf(engine->options().policy)}, {"start_version", nullptr}, {"end_version", pause.end_version}};
  if (pause.start_version) json["start_version"] = *pause.start_version;
  json["namespace"] = pause.cache_namespace;
  json["flushed"] = pause.has_flushed;
  json["aborted_all"] = pause.has_aborted_all;
  json["label_error"] = pause.label_error;
  return json;
}

}  // namespace

HttpReply HandleHealth(SamplerSession& session, const ControlFields& /*fields*/) {
  const Status ready = session.Readiness();
  if (!ready.ok()) return FailureReply(503, ready.message());
  return SuccessReply("ready", OrderedJson{{"weight_version", VersionText(session)}});
}

HttpReply HandleServerInfo(SamplerSession& session, const ControlFields& /*fields*/) {
  const Status ready = session.Readiness();
  const SessionReceipt receipt = session.receipt();
  const SamplerIdentity& identity = session.identity();
  OrderedJson info = {{"ready", ready.ok()},
                      {"reason", ready.message()},
                      {"engine_id", identity.engine_id},
                      {"hostname", identity.hostname},
                      {"pid", identity.pid},
                      {"memory", session.options().memory},
                      {"backend", session.options().backend},
                      {"engine", EngineJson(session)},
                      {"kv_cache", CacheJson(session)},
                      {"checkpoint", session.options().checkpoint},
                      {"stream_id", session.stream().info().stream_id},
                      {"layout_digest", ToHex(session.stream().layout().digest())},
                      {"applied", receipt.applied_version},
                      {"paused", session.is_paused()},
                      {"sync_state", NameOf(receipt.state)},
                      {"follows", session.options().follows}};
  if (const Result<uint64_t> newest = session.Newest(); newest.ok()) info["newest"] = *newest;
  if (const auto follower = session.follower_status()) {
    info["follower"] = {{"applied_count", follower->applied_count},
                        {"skipped_count", follower->skipped_count},
                        {"failed_count", follower->failed_count},
                        {"longest_pause_ms", follower->longest_pause_seconds * 1e3},
                        {"last_error", follower->last_error}};
  }
  return PlainReply(info);
}

HttpReply HandleModelInfo(SamplerSession& session, const ControlFields& /*fields*/) {
  return PlainReply({{"model_path", session.options().checkpoint}, {"weight_version", VersionText(session)}});
}

HttpReply HandleWeightVersion(SamplerSession& session, const ControlFields& /*fields*/) {
  return PlainReply({{"weight_version", VersionText(session)}});
}

HttpReply HandleWeightsChecker(SamplerSession& session, const ControlFields& fields) {
  if (fields.action != "checksum") {
    return FailureReply(501, "only action \"checksum\" is there: it reads all of memory and needs no snapshot to compare with");
  }
  const Result<WeightsChecksum> checksum = session.Checksum();
  if (!checksum.ok()) return FailureReply(checksum.status());
  const bool matches = checksum->state == checksum->expected;
  const OrderedJson rank = {{"checksums", {{"state_digest", ToText(checksum->state)}}},
                            {"parallelism_info", {{"tp_rank", 0}, {"dp_rank", 0}, {"pp_rank", 0}}}};
  const OrderedJson more = {{"weight_version", std::to_string(checksum->version)},
                            {"expected", ToText(checksum->expected)},
                            {"ranks", OrderedJson::array({rank})}};
  if (matches) return SuccessReply("live memory is version " + std::to_string(checksum->version), more);
  return FailureReply(409, "live memory is not version " + std::to_string(checksum->version), more);
}

HttpReply HandleIsPaused(SamplerSession& session, const ControlFields& /*fields*/) {
  return PlainReply({{"is_paused", session.is_paused()}});
}

// All modes are one here: the gate closes when the readers have left, and what becomes of an engine's requests is said once, by
// the policy that this server was started with.
HttpReply HandlePause(SamplerSession& session, const ControlFields& fields) {
  Status paused = CheckPauseMode(fields.mode);
  if (paused.ok()) paused = session.PauseGeneration(fields.reason);
  if (!paused.ok()) return FailureReply(paused);
  return SuccessReply("paused", OrderedJson{{"num_paused_requests", 0}});
}

HttpReply HandleContinue(SamplerSession& session, const ControlFields& /*fields*/) {
  const Status status = session.ContinueGeneration();
  if (!status.ok()) return FailureReply(status);
  return SuccessReply("generation may continue", OrderedJson{{"weight_version", VersionText(session)}});
}

HttpReply HandleFlushCache(SamplerSession& session, const ControlFields& /*fields*/) {
  if (const EngineMemory* engine = session.options().engine; engine != nullptr) {
    const Status flushed = engine->FlushNow();
    if (!flushed.ok()) return FailureReply(flushed);
    return SuccessReply("the engine has flushed its cache", OrderedJson::object());
  }
  return SuccessReply("this server holds weights only: there is no cache to flush", OrderedJson::object());
}

HttpReply HandleUpdateWeightVersion(SamplerSession& session, const ControlFields& fields) {
  if (fields.new_version.empty()) return FailureReply(400, "new_version is missing");
  if (fields.new_version != VersionText(session)) {
    return FailureReply(409, "version " + VersionText(session) + " is applied: a version is what was proven, not a label");
  }
  return SuccessReply("version " + VersionText(session) + " is applied", OrderedJson{{"weight_version", VersionText(session)}});
}

}  // namespace xorbit
