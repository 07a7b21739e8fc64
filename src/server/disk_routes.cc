#include "server/disk_routes.h"

#include <algorithm>

#include "base/json.h"
#include "base/text.h"
#include "server/dispatch.h"
#include "server/metrics_text.h"
#include "server/reply.h"

namespace xorbit {
namespace {

constexpr std::string_view kOnTheDisk =
    "the weights of this sampler are on the disk; use POST /pull_weights, then /update_weights_from_disk";

// Frameworks name the folder that every host patches; here there is one.
Status CheckFolder(const DiskSampler& sampler, const std::optional<std::string>& named, std::string_view field) {
  std::error_code error;
  if (!named || fs::equivalent(*named, sampler.options().source.checkpoint, error)) return {};
  return RefusedError(std::string(field) + " is not the checkpoint of this sampler, " +
                      Quoted(sampler.options().source.checkpoint.string()));
}

std::string LabelOf(std::optional<uint64_t> version) { return version ? std::to_string(*version) : "unknown"; }

OrderedJson VersionsOf(const DiskSampler& sampler) {
  return {{"weight_version", LabelOf(sampler.version())}, {"disk_version", LabelOf(sampler.disk_version())}};
}

HttpReply HandleHealth(DiskSampler& sampler, const ControlFields& /*fields*/) {
  const Status ready = sampler.Readiness();
  return ready.ok() ? SuccessReply("ready", VersionsOf(sampler)) : FailureReply(503, ready.message());
}

HttpReply HandleMetrics(DiskSampler& sampler, const ControlFields& /*fields*/) {
  MetricsText text;
  const DiskCounts counts = sampler.counts();
  const std::optional<uint64_t> loaded = sampler.version();
  const Result<uint64_t> newest = sampler.Newest();
  if (loaded) text.One("xorbit_applied_version", "gauge", "The version that the engine has loaded, if it is known.", *loaded);
  if (const std::optional<uint64_t> on_disk = sampler.disk_version()) {
    text.One("xorbit_disk_version", "gauge", "The version of the checkpoint, if it is known.", *on_disk);
  }
  if (loaded && newest.ok()) {
    text.One("xorbit_version_lag", "gauge", "How many versions newer the newest one is.", std::max(*newest, *loaded) - *loaded);
  }
  text.One("xorbit_ready", "gauge", "1 while the engine answers and it is known what it has loaded.",
           sampler.Readiness().ok() ? 1 : 0);
  text.Begin("xorbit_updates_total", "counter", "Loads by what came of them.");
  text.Add(MetricsText::Label("result", "applied"), counts.loaded_count);
  text.Add(MetricsText::Label("result", "failed"), counts.load_failed_count);
  text.Begin("xorbit_pulls_total", "counter", "Pulls that have changed the checkpoint, and pulls that have failed.");
  text.Add(MetricsText::Label("result", "applied"), counts.pulled_count);
  text.Add(MetricsText::Label("result", "failed"), counts.pull_failed_count);
  text.One("xorbit_fetched_bytes_total", "counter", "Bytes of manifests and payloads.", counts.fetched_bytes);
  text.One("xorbit_changed_elements_total", "counter", "Elements that pulls have changed.", counts.change_count);
  text.One("xorbit_pull_seconds_total", "counter", "Time of all pulls, while the engine serves.", counts.pull_seconds);
  text.One("xorbit_load_seconds_total", "counter", "Time of all loads; what the engine serves meanwhile is its own.",
           counts.load_seconds);
  AddReplies(sampler.counters().counts(), &text);
  return text.Reply();
}

HttpReply HandleServerInfo(DiskSampler& sampler, const ControlFields& /*fields*/) {
  const Status ready = sampler.Readiness();
  return PlainReply({{"ready", ready.ok()},
                     {"reason", ready.message()},
                     {"engine_id", sampler.options().engine_id},
                     {"memory", "disk"},
                     {"engine",
                      {{"kind", NameOf(sampler.options().engine.kind)},
                       {"url", sampler.options().engine.url},
                       {"names_version", sampler.engine().names_version()},
                       {"label_error", sampler.engine().label_error()}}},
                     {"checkpoint", sampler.options().source.checkpoint.string()},
                     {"updates_from", sampler.follows_stream() ? "stream" : "weight_v folders"},
                     {"follows", sampler.options().follows},
                     {"last_error", sampler.counts().last_error},
                     {"applied", OrNull(sampler.version())},
                     {"on_disk", OrNull(sampler.disk_version())}});
}

HttpReply HandleModelInfo(DiskSampler& sampler, const ControlFields& /*fields*/) {
  OrderedJson info = VersionsOf(sampler);
  info["model_path"] = sampler.options().source.checkpoint.string();
  return PlainReply(info);
}

// Who follows decides by himself.
Status CheckMayChange(const DiskSampler& sampler) {
  if (!sampler.options().follows) return {};
  return RefusedError("this sampler follows by itself; start it without --follow to have it pull and load when it is told to");
}

HttpReply HandlePullWeights(DiskSampler& sampler, const ControlFields& fields) {
  Status fits = CheckMayChange(sampler);
  if (fits.ok()) fits = CheckFolder(sampler, fields.local_checkpoint_dir, "local_checkpoint_dir");
  if (!fits.ok()) return FailureReply(fits);
  if (!fields.target_version && !fields.wants_latest) {
    return FailureReply(400, "target_version is missing: a number, or \"latest\"");
  }
  const Result<PulledDisk> pulled = sampler.Pull(fields.target_version, fields.source_dir);
  if (!pulled.ok()) return FailureReply(pulled.status());
  OrderedJson more = VersionsOf(sampler);
  more["from"] = pulled->from;
  more["change_count"] = pulled->change_count;
  more["fetched_bytes"] = pulled->fetched_bytes;
  return SuccessReply("the checkpoint is version " + std::to_string(pulled->version), more);
}

HttpReply HandleUpdateFromDisk(DiskSampler& sampler, const ControlFields& fields) {
  Status fits = CheckMayChange(sampler);
  if (fits.ok()) fits = CheckFolder(sampler, fields.model_path, "model_path");
  if (!fits.ok()) return FailureReply(fits);
  const Result<uint64_t> loaded = sampler.Reload({fields.flush_cache, fields.abort_all_requests}, fields.label);
  if (!loaded.ok()) return FailureReply(loaded.status());
  OrderedJson more = VersionsOf(sampler);
  more["num_paused_requests"] = 0;
  return SuccessReply("the engine has loaded version " + std::to_string(*loaded), more);
}

HttpReply HandlePause(DiskSampler& sampler, const ControlFields& fields) {
  Status status = CheckPauseMode(fields.mode);
  if (status.ok()) status = sampler.engine().Pause(fields.mode);
  return status.ok() ? SuccessReply("the engine is paused", VersionsOf(sampler)) : FailureReply(status);
}

HttpReply HandleContinue(DiskSampler& sampler, const ControlFields& /*fields*/) {
  const Status status = sampler.engine().Continue();
  return status.ok() ? SuccessReply("the engine goes on", VersionsOf(sampler)) : FailureReply(status);
}

HttpReply HandleFlushCache(DiskSampler& sampler, const ControlFields& /*fields*/) {
  const Status status = sampler.engine().FlushCache();
  return status.ok() ? SuccessReply("the engine has flushed its cache", VersionsOf(sampler)) : FailureReply(status);
}

constexpr DiskRoute kRoutes[] = {
    {"GET", "/health", Role::kOpen, HandleHealth,
     "200 while the engine answers and it is known what it has loaded, 503 with the reason otherwise"},
    {"GET", "/metrics", Role::kRead, HandleMetrics, "counts and gauges in Prometheus' text format"},
    {"GET", "/server_info", Role::kRead, HandleServerInfo, "what is on the disk, and what the engine has loaded"},
    {"GET", "/model_info", Role::kRead, HandleModelInfo, "checkpoint and versions"},
    {"GET", "/get_weight_version", Role::kRead, HandleModelInfo, "the version that the engine has loaded, or unknown"},
    {"GET", "/weight_info", Role::kRead, HandleModelInfo, "the same, by vLLM's name"},
    {"POST", "/pull_weights", Role::kAdmin, HandlePullWeights, "brings the checkpoint to a version while the engine serves"},
    {"POST", "/update_weights_from_disk", Role::kAdmin, HandleUpdateFromDisk, "has the engine load the checkpoint"},
    {"POST", "/pause_generation", Role::kAdmin, HandlePause, "the engine's own pause"},
    {"POST", "/continue_generation", Role::kAdmin, HandleContinue, "its end"},
    {"POST", "/pause", Role::kAdmin, HandlePause, "the engine's own pause, by vLLM's name"},
    {"POST", "/resume", Role::kAdmin, HandleContinue, "its end, by vLLM's name"},
    {"GET", "/flush_cache", Role::kAdmin, HandleFlushCache, "the engine's own"},
    {"POST", "/flush_cache", Role::kAdmin, HandleFlushCache, "the engine's own"},
    {"POST", "/prepare_gpu_delta", Role::kAdmin, nullptr, kOnTheDisk},
    {"POST", "/apply_gpu_delta", Role::kAdmin, nullptr, kOnTheDisk},
    {"POST", "/update_weights_from_gpu_delta", Role::kAdmin, nullptr, kOnTheDisk},
};

}  // namespace

std::span<const DiskRoute> AllDiskRoutes() { return kRoutes; }

HttpReply Dispatch(DiskSampler& sampler, const AccessRules& access, RateLimit& limit, const HttpRequest& request) {
  return DispatchTo<DiskSampler>(kRoutes, sampler, access, limit, request);
}

}  // namespace xorbit
