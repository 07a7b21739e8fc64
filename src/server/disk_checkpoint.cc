#include "server/disk_checkpoint.h"

#include "base/text.h"
#include "interchange/miles_chain.h"
#include "server/store_paths.h"

namespace xorbit {

Result<std::unique_ptr<DiskCheckpoint>> DiskCheckpoint::Open(const Runtime& runtime, ObjectStore& store,
                                                             const DiskSource& source) {
  XORBIT_ASSIGN_OR_RETURN(FileTarget target, FileTarget::Open(*runtime.file_ops, source.checkpoint, runtime.threads));
  Result<Stream> stream = Stream::Open(store, source.stream_id);
  const bool has_none = stream.status().code() == Code::kNotFound && source.stream_id.empty();
  if (!stream.ok() && !has_none) return stream.status();
  std::unique_ptr<DiskCheckpoint> opened;
  opened.reset(new DiskCheckpoint(runtime, store, source, std::move(target)));  // tidy-allow: private
  if (stream.ok()) opened->stream_ = std::move(*stream);
  XORBIT_RETURN_IF_ERROR(opened->Prove().status());
  return opened;
}

Result<std::vector<FileStamp>> DiskCheckpoint::Stamp() const {
  XORBIT_RETURN_IF_ERROR(target_.CheckPlace());
  XORBIT_ASSIGN_OR_RETURN(const Checkpoint checkpoint, Checkpoint::Open(source_.checkpoint));
  return StampFiles(checkpoint);
}

Result<uint64_t> DiskCheckpoint::Prove() {
  const std::optional<uint64_t> known = version();
  XORBIT_ASSIGN_OR_RETURN(std::vector<FileStamp> stamps, Stamp());
  if (known && stamps == proven_) return *known;
  SetHeld({});
  XORBIT_RETURN_IF_ERROR(target_.Recover(RecoveryDirection::kUndo).status());
  // The files' times are taken before the bytes are read: what is changed meanwhile is read again the next time.
  XORBIT_ASSIGN_OR_RETURN(stamps, Stamp());
  XORBIT_ASSIGN_OR_RETURN(const Checkpoint checkpoint, Checkpoint::Open(source_.checkpoint));
  XORBIT_ASSIGN_OR_RETURN(const Held found, FindVersion(checkpoint));
  proven_ = std::move(stamps);
  SetHeld(found);
  return found.version;
}

Result<DiskCheckpoint::Held> DiskCheckpoint::FindVersion(const Checkpoint& checkpoint) {
  const std::string name = Quoted(source_.checkpoint.string());
  if (!stream_) {
    XORBIT_ASSIGN_OR_RETURN(const MilesChain chain, MilesChain::Open(source_.store_root, checkpoint.layout()));
    XORBIT_ASSIGN_OR_RETURN(const auto version, chain.VersionOf(checkpoint.all_tensor_bytes(), runtime_.threads));
    if (version) return Held{*version, {}};
    return RefusedError(name + " is no version of the weight_v folders in " + Quoted(source_.store_root.string()) +
                        ": seed it again from a version that is one");
  }
  XORBIT_ASSIGN_OR_RETURN(Stream stream, Stream::Open(store_, source_.stream_id));
  XORBIT_RETURN_IF_ERROR(RequireSameLayout(checkpoint.layout(), name, stream.layout(), "the stream"));
  const StateDigest state =
      runtime_.backend->Scan(checkpoint.layout(), checkpoint.all_tensor_bytes(), ScanScope::kAll, runtime_.threads);
  XORBIT_ASSIGN_OR_RETURN(const std::optional<uint64_t> version, VersionOfState(stream, state));
  if (version) return Held{*version, state};
  return RefusedError(name + " is no version of the stream: make one that is with xorbit pull, in a new folder");
}

Status DiskCheckpoint::CheckUnchanged() const {
  XORBIT_ASSIGN_OR_RETURN(const std::vector<FileStamp> stamps, Stamp());
  if (stamps == proven_) return {};
  return RefusedError("the files of " + Quoted(source_.checkpoint.string()) + " were changed meanwhile, by no xorbit process");
}

Result<PulledDisk> DiskCheckpoint::Pull(std::optional<uint64_t> target, const std::optional<std::string>& source_dir) {
  XORBIT_ASSIGN_OR_RETURN(const uint64_t from, Prove());
  Result<PulledDisk> pulled = stream_ ? PullStream(from, target, source_dir) : PullFolders(from, target, source_dir);
  if (pulled.ok()) return pulled;
  static_cast<void>(Prove());  // what failed may have left another version, or none
  XORBIT_RETURN_IF_ERROR(ProveHeld());
  return pulled;
}

Result<PulledDisk> DiskCheckpoint::PullStream(uint64_t from, std::optional<uint64_t> target,
                                              const std::optional<std::string>& source_dir) {
  if (source_dir) return RefusedError("the checkpoint follows a stream: leave source_dir out");
  XORBIT_ASSIGN_OR_RETURN(const PulledCheckpoint result,
                          PullCheckpoint(runtime_, store_, source_.stream_id, &target_, source_.checkpoint, target));
  XORBIT_RETURN_IF_ERROR(NoteProven(result.version, result.state));
  return PulledDisk{from, result.version, result.change_count, result.fetched_bytes};
}

Result<PulledDisk> DiskCheckpoint::PullFolders(uint64_t from, std::optional<uint64_t> target,
                                               const std::optional<std::string>& source_dir) {
  std::error_code error;
  XORBIT_ASSIGN_OR_RETURN(const fs::path folder, FindInStore(source_.store_root, source_dir.value_or("."), "source_dir"));
  // Another folder is another run, whose versions say nothing about what this checkpoint was proven to be.
  if (!fs::equivalent(folder, source_.store_root, error)) {
    return RefusedError("source_dir is not the folder whose versions this sampler serves, " +
                        Quoted(source_.store_root.string()));
  }
  if (target.value_or(from) < from) {
    return RefusedError("the checkpoint is version " + std::to_string(from) +
                        ", and weight_v folders do not lead back: seed it again for version " + std::to_string(*target));
  }
  std::vector<MilesStep> way;
  {
    XORBIT_ASSIGN_OR_RETURN(const Checkpoint checkpoint, Checkpoint::Open(source_.checkpoint));
    XORBIT_ASSIGN_OR_RETURN(way, FindMilesWay(source_.store_root, checkpoint.layout(), from, target));
  }
  PulledDisk pulled;
  pulled.from = pulled.version = from;
  // One by one: each is crash-safe by itself, and what is done stays done.
  for (const MilesStep& step : way) {
    XORBIT_ASSIGN_OR_RETURN(const ApplySummary applied,
                            ApplyInPlace(runtime_, &target_, source_.checkpoint, {step.folder}, Direction::kForward));
    XORBIT_RETURN_IF_ERROR(NoteProven(step.version, {}));
    pulled.change_count += applied.change_count;
    pulled.version = step.version;
  }
  return pulled;
}

Result<uint64_t> DiskCheckpoint::Newest() { return stream_ ? stream_->Newest() : NewestMilesVersion(source_.store_root); }

Status DiskCheckpoint::NoteProven(uint64_t version, const StateDigest& state) {
  XORBIT_ASSIGN_OR_RETURN(proven_, Stamp());
  SetHeld(Held{version, state});
  return {};
}

Status DiskCheckpoint::CheckHeld() {
  const std::optional<Held> now = held();
  if (!now || !stream_) return {};
  return NoteHeld(*now, stream_->CheckHeld(now->version, now->state));
}

Status DiskCheckpoint::ProveHeld() {
  const std::optional<Held> now = held();
  if (!now || !stream_) return {};
  return NoteHeld(*now, stream_->ProveHeld(now->version, now->state));
}

// What cannot be known now leaves things as they are.
Status DiskCheckpoint::NoteHeld(const Held& held, const Status& status) {
  if (!status.ok() && status.code() != Code::kRefused) return {};
  const std::lock_guard lock(mutex_);
  if (held_ && held_->version == held.version) rewritten_ = status.message();
  return status;
}

std::string DiskCheckpoint::rewritten() const {
  const std::lock_guard lock(mutex_);
  return rewritten_;
}

std::optional<DiskCheckpoint::Held> DiskCheckpoint::held() const {
  const std::lock_guard lock(mutex_);
  return held_;
}

std::optional<uint64_t> DiskCheckpoint::version() const {
  const std::optional<Held> now = held();
  return now ? std::optional(now->version) : std::nullopt;
}

void DiskCheckpoint::SetHeld(const std::optional<Held>& held) {
  const std::lock_guard lock(mutex_);
  held_ = held;
  rewritten_.clear();
}

}  // namespace xorbit
