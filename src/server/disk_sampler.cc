#include "server/disk_sampler.h"

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
  return checkpoint_->Pull(target, source_dir);
}

Result<uint64_t> DiskSampler::Reload(const ReloadOrder& order, const std::optional<std::string>& label) {
  const std::unique_lock work(work_mutex_, std::try_to_lock);
  if (!work) return RefusedError(std::string(kBusy));
  XORBIT_ASSIGN_OR_RETURN(const uint64_t version, checkpoint_->Prove());
  if (label && *label != std::to_string(version)) {
    return RefusedError("version " + std::to_string(version) + " is on the disk: pull version " + Quoted(*label) + " first");
  }
  XORBIT_RETURN_IF_ERROR(
      engine_.Load(options_.source.checkpoint.string(), version, order, [this] { return checkpoint_->CheckUnchanged(); }));
  return version;
}

}  // namespace xorbit
