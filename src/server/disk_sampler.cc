#include "server/disk_sampler.h"

#include <algorithm>

#include "base/stopwatch.h"
#include "base/text.h"
#include "server/sampler_identity.h"

namespace xorbit {
namespace {

constexpr std::string_view kBusy = "an update is under way: ask again when it is over";

}  // namespace

Result<std::unique_ptr<DiskSampler>> DiskSampler::Open(const Runtime& runtime, ObjectStore& store,
                                                       const DiskSamplerOptions& options) {
  DiskSamplerOptions named = options;
  named.engine_id = ThisSampler(options.engine_id).engine_id;
  named.source.checkpoint = fs::absolute(options.source.checkpoint);
  if (!IsValidUtf8(named.source.checkpoint.string())) {
    return UsageError("the path " + Quoted(named.source.checkpoint.string()) +
                      " is not UTF-8, and cannot be told to an engine: rename it");
  }
  std::unique_ptr<DiskSampler> sampler(new DiskSampler(std::move(named)));  // tidy-allow: private
  XORBIT_ASSIGN_OR_RETURN(sampler->checkpoint_, DiskCheckpoint::Open(runtime, store, sampler->options_.source));
  XORBIT_RETURN_IF_ERROR(sampler->Reload({}, {}).status());
  return sampler;
}

Result<PulledDisk> DiskSampler::Pull(std::optional<uint64_t> target, const std::optional<std::string>& source_dir) {
  const std::unique_lock work(work_mutex_, std::try_to_lock);
  if (!work) return RefusedError(std::string(kBusy));
  const Stopwatch watch;
  Result<PulledDisk> pulled = checkpoint_->Pull(target, source_dir);
  const std::lock_guard lock(counts_mutex_);
  counts_.pull_seconds += watch.seconds();
  if (!pulled.ok()) {
    ++counts_.pull_failed_count;
    return pulled;
  }
  if (pulled->version != pulled->from) ++counts_.pulled_count;
  counts_.fetched_bytes += pulled->fetched_bytes;
  counts_.change_count += pulled->change_count;
  return pulled;
}

Result<uint64_t> DiskSampler::Reload(const ReloadOrder& order, const std::optional<std::string>& label) {
  const std::unique_lock work(work_mutex_, std::try_to_lock);
  if (!work) return RefusedError(std::string(kBusy));
  const Stopwatch watch;
  Result<uint64_t> loaded = LoadProven(order, label);
  const std::lock_guard lock(counts_mutex_);
  counts_.load_seconds += watch.seconds();
  ++(loaded.ok() ? counts_.loaded_count : counts_.load_failed_count);
  return loaded;
}

Result<uint64_t> DiskSampler::Newest() {
  Result<uint64_t> newest = checkpoint_->Newest();
  (void)checkpoint_->CheckHeld();
  return newest;
}

Status DiskSampler::Readiness() {
  const std::string rewritten = checkpoint_->rewritten();
  return rewritten.empty() ? engine_.Readiness() : RefusedError(rewritten);
}

Status DiskSampler::CatchUp() {
  XORBIT_ASSIGN_OR_RETURN(const uint64_t newest, checkpoint_->Newest());
  XORBIT_RETURN_IF_ERROR(checkpoint_->CheckHeld());
  // A stream that was put back has an older version to offer, which leads nowhere.
  const bool is_there = disk_version() == newest || (follows_stream() && disk_version() > newest);
  if (!is_there) XORBIT_RETURN_IF_ERROR(Pull({}, {}).status());
  return version() == disk_version() ? Status() : Reload({}, {}).status();
}

void DiskSampler::Follow(const std::stop_token& stop) {
  std::chrono::milliseconds interval = options_.follow_interval;
  auto next_probe = std::chrono::steady_clock::now() + options_.probe_interval;
  while (!stop.stop_requested()) {
    if (std::chrono::steady_clock::now() >= next_probe) {
      static_cast<void>(engine_.Readiness());  // if it is another engine by now, its version is not known any more
      next_probe = std::chrono::steady_clock::now() + options_.probe_interval;
    }
    const Status status = CatchUp();
    interval = status.ok() ? options_.follow_interval : std::min(2 * interval, options_.last_back_off);
    std::unique_lock lock(counts_mutex_);
    counts_.last_error = status.message();
    never_.wait_for(lock, stop, interval, [] { return false; });
  }
}

DiskCounts DiskSampler::counts() const {
  const std::lock_guard lock(counts_mutex_);
  return counts_;
}

Result<uint64_t> DiskSampler::LoadProven(const ReloadOrder& order, const std::optional<std::string>& label) {
  XORBIT_ASSIGN_OR_RETURN(const uint64_t version, checkpoint_->Prove());
  XORBIT_RETURN_IF_ERROR(checkpoint_->ProveHeld());
  if (label && *label != std::to_string(version)) {
    return RefusedError("version " + std::to_string(version) + " is on the disk: pull version " + Quoted(*label) + " first");
  }
  XORBIT_RETURN_IF_ERROR(
      engine_.Load(options_.source.checkpoint.string(), version, order, [this] { return checkpoint_->CheckUnchanged(); }));
  return version;
}

}  // namespace xorbit
