#include "server/disk_sampler.h"

#include <algorithm>
#include <charconv>

#include "base/json.h"
#include "base/text.h"
#include "interchange/miles_delta.h"
#include "server/sampler_identity.h"
#include "server/store_paths.h"

namespace xorbit {
namespace {

constexpr std::string_view kBusy = "an update is under way: ask again when it is over";

// The newest weight_vNNNNNN folder; 0 if there is none.
Result<uint64_t> NewestFolder(const fs::path& source) {
  constexpr std::string_view kPrefix = "weight_v";
  std::error_code error;
  uint64_t newest = 0;
  for (const fs::directory_entry& entry : fs::directory_iterator(source, error)) {
    const std::string name = entry.path().filename().string();
    if (!name.starts_with(kPrefix)) continue;
    uint64_t version = 0;
    const std::string_view digits = std::string_view(name).substr(kPrefix.size());
    const auto [end, wrong] = std::from_chars(digits.data(), digits.data() + digits.size(), version);
    if (wrong == std::errc() && end == digits.data() + digits.size()) newest = std::max(newest, version);
  }
  if (error) return IoError("cannot list " + Quoted(source.string()) + ": " + error.message());
  return newest;
}

}  // namespace

Result<std::unique_ptr<DiskSampler>> DiskSampler::Open(const Runtime& runtime, ObjectStore& store,
                                                       const DiskSamplerOptions& options) {
  DiskSamplerOptions named = options;
  named.engine_id = ThisSampler(options.engine_id).engine_id;
  std::unique_ptr<DiskSampler> sampler(new DiskSampler(runtime, store, std::move(named)));  // tidy-allow: private
  XORBIT_RETURN_IF_ERROR(RollBack(runtime, options.checkpoint).status());
  XORBIT_ASSIGN_OR_RETURN(sampler->disk_version_, sampler->FindVersion());
  XORBIT_RETURN_IF_ERROR(sampler->Reload({}));
  return sampler;
}

Result<uint64_t> DiskSampler::FindVersion() {
  Result<Stream> stream = Stream::Open(store_, options_.stream_id);
  if (stream.status().code() == Code::kNotFound && options_.stream_id.empty()) return FindFolderVersion();
  if (!stream.ok()) return stream.status();
  has_stream_ = true;
  const std::string name = Quoted(options_.checkpoint.string());
  XORBIT_ASSIGN_OR_RETURN(const Checkpoint checkpoint, OpenSettled(options_.checkpoint));
  XORBIT_RETURN_IF_ERROR(RequireSameLayout(checkpoint.layout(), name, stream->layout(), "the stream"));
  const StateDigest state =
      runtime_.backend->Scan(checkpoint.layout(), checkpoint.all_tensor_bytes(), ScanScope::kAll, runtime_.threads);
  XORBIT_ASSIGN_OR_RETURN(const std::optional<uint64_t> version, VersionOfState(*stream, state));
  if (version) return *version;
  return RefusedError(name + " is no version of the stream: bring it to one with xorbit pull");
}

// Folders vouch for what they change alone, so the newest one that fits says where the checkpoint stands.
Result<uint64_t> DiskSampler::FindFolderVersion() const {
  XORBIT_ASSIGN_OR_RETURN(const Checkpoint checkpoint, OpenSettled(options_.checkpoint));
  XORBIT_ASSIGN_OR_RETURN(const uint64_t newest, NewestFolder(options_.store_root));
  for (uint64_t version = newest; version > 0; --version) {
    const Result<MilesDelta> delta = MilesDelta::Open(options_.store_root / MilesFolderName(version), checkpoint.layout());
    if (delta.status().code() == Code::kNotFound) continue;
    if (!delta.ok()) return delta.status();
    if (delta->entries().empty()) continue;  // fits anything
    XORBIT_ASSIGN_OR_RETURN(const MilesVerdict verdict, delta->VerifyAgainst(checkpoint.all_tensor_bytes(), runtime_.threads));
    if (verdict.state == MilesState::kTarget) return version;
    if (verdict.state == MilesState::kBase) return delta->index().base_version;
  }
  return uint64_t{0};
}

Result<PulledDisk> DiskSampler::PullFolders(std::optional<uint64_t> target, const fs::path& source) {
  PulledDisk pulled;
  pulled.from = disk_version();
  if (!target) {
    XORBIT_ASSIGN_OR_RETURN(target, NewestFolder(source));
  }
  pulled.version = *target;
  if (*target < pulled.from) {
    return RefusedError("the checkpoint is version " + std::to_string(pulled.from) +
                        ", and weight_v folders do not lead back: seed it again for version " + std::to_string(*target));
  }
  // One by one: each is crash-safe by itself, and what is done stays done.
  while (disk_version() < *target) {
    const uint64_t next = disk_version() + 1;
    XORBIT_ASSIGN_OR_RETURN(const ApplySummary applied,
                            ApplyInPlace(runtime_, options_.checkpoint, {source / MilesFolderName(next)}, Direction::kForward));
    pulled.change_count += applied.change_count;
    const std::lock_guard lock(mutex_);
    disk_version_ = next;
  }
  return pulled;
}

Result<PulledDisk> DiskSampler::Pull(std::optional<uint64_t> target, const std::optional<std::string>& source) {
  const std::unique_lock work(work_mutex_, std::try_to_lock);
  if (!work) return RefusedError(std::string(kBusy));
  if (!has_stream_ || source) {
    if (has_stream_) return RefusedError("the checkpoint follows a stream: leave source_dir out");
    XORBIT_ASSIGN_OR_RETURN(const fs::path folder, FindInStore(options_.store_root, source.value_or("."), "source_dir"));
    return PullFolders(target, folder);
  }
  XORBIT_ASSIGN_OR_RETURN(const PulledCheckpoint result,
                          PullCheckpoint(runtime_, store_, options_.stream_id, options_.checkpoint, target));
  PulledDisk pulled{disk_version(), result.version, result.change_count, result.fetched_bytes};
  const std::lock_guard lock(mutex_);
  disk_version_ = result.version;
  return pulled;
}

Status DiskSampler::Call(const EngineCall& call, std::chrono::milliseconds limit) const {
  HttpCall http;
  http.method = call.method;
  http.path = call.path;
  http.body = call.body;
  http.token = options_.token;
  const std::string what = "the engine's " + call.path;
  const Result<HttpReply> reply = CallHttp(options_.endpoint, http, std::chrono::steady_clock::now() + limit);
  if (!reply.ok()) return reply.status().WithContext(what);
  // SGLang says in the body that it has failed, whatever the status.
  const bool has_failed =
      reply->body.find("\"success\":false") != std::string::npos || reply->body.find("\"success\": false") != std::string::npos;
  if (reply->status >= 200 && reply->status < 300 && !has_failed) return {};
  return RefusedError(what + " answered " + std::to_string(reply->status) + ": " + Quoted(reply->body));
}

Status DiskSampler::ReloadSglang(const ReloadOrder& order, uint64_t version) const {
  const OrderedJson body = {{"model_path", fs::absolute(options_.checkpoint).string()},
                            {"weight_version", std::to_string(version)},
                            {"flush_cache", order.flush_cache},
                            {"abort_all_requests", order.abort_all_requests}};
  return Call({"POST", "/update_weights_from_disk", DumpJson(body)}, options_.reload_limit);
}

// What fails after the pause leaves the engine standing: its weights may be anything.
Status DiskSampler::ReloadVllm(const ReloadOrder& order, uint64_t version) const {
  const KvPolicy policy = order.abort_all_requests ? KvPolicy::kAbort : KvPolicy::kFlush;
  XORBIT_RETURN_IF_ERROR(Call(PauseCall(options_.kind, policy), options_.call_limit));
  const OrderedJson body = {{"method", "reload_weights"}};
  XORBIT_RETURN_IF_ERROR(Call({"POST", "/collective_rpc", DumpJson(body)}, options_.reload_limit));
  if (order.flush_cache) XORBIT_RETURN_IF_ERROR(Call(FlushCall(options_.kind), options_.call_limit));
  XORBIT_RETURN_IF_ERROR(Call(LabelCall(options_.kind, version), options_.call_limit));
  return Call(ContinueCall(options_.kind), options_.call_limit);
}

Status DiskSampler::Reload(const ReloadOrder& order) {
  const std::unique_lock work(work_mutex_, std::try_to_lock);
  if (!work) return RefusedError(std::string(kBusy));
  const uint64_t version = disk_version();
  const Status status = options_.kind == EngineKind::kVllm ? ReloadVllm(order, version) : ReloadSglang(order, version);
  const std::lock_guard lock(mutex_);
  unknown_ = status.message();
  if (status.ok()) engine_version_ = version;
  return status;
}

Status DiskSampler::Pause(const std::string& mode) {
  EngineCall call = PauseCall(options_.kind, KvPolicy::kAbort);
  if (options_.kind == EngineKind::kVllm) {
    call.path = mode.empty() ? "/pause" : "/pause?mode=" + mode;
  } else {
    call.body = mode.empty() ? "{}" : DumpJson({{"mode", mode}});
  }
  return Call(call, options_.call_limit);
}

Status DiskSampler::Continue() { return Call(ContinueCall(options_.kind), options_.call_limit); }

Status DiskSampler::FlushCache() { return Call(FlushCall(options_.kind), options_.call_limit); }

Status DiskSampler::Readiness() const {
  const std::lock_guard lock(mutex_);
  if (unknown_.empty()) return {};
  return RefusedError("nobody knows what the engine holds: " + unknown_ + "; POST /update_weights_from_disk again");
}

uint64_t DiskSampler::version() const {
  const std::lock_guard lock(mutex_);
  return engine_version_;
}

uint64_t DiskSampler::disk_version() const {
  const std::lock_guard lock(mutex_);
  return disk_version_;
}

}  // namespace xorbit
