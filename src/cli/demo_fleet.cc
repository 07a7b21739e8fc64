#include "cli/demo_fleet.h"

#include <fmt/core.h>

#include <optional>

#include "base/parallel.h"
#include "base/staged_folder.h"
#include "base/stopwatch.h"
#include "cli/demo_engine.h"
#include "cli/demo_trainer.h"
#include "journey/gated_sampler.h"
#include "receive/host_memory.h"
#include "receive/store_cohort.h"
#include "tensor/fingerprint.h"
#include "transport/folder_store.h"

namespace xorbit {
namespace {

// Everything that is alive during the demo.
class Fleet {
 public:
  Fleet(const Runtime& runtime, const std::vector<fs::path>& checkpoints) : runtime_(runtime), paths_(checkpoints) {}

  Status Begin(const fs::path& store_folder) {
    for (const fs::path& path : paths_) {
      XORBIT_ASSIGN_OR_RETURN(Checkpoint checkpoint, Checkpoint::Open(path));
      checkpoints_.push_back(std::move(checkpoint));
    }
    const Layout& layout = checkpoints_.front().layout();
    XORBIT_ASSIGN_OR_RETURN(store_, OpenFolderStore(*runtime_.file_ops, store_folder));
    XORBIT_RETURN_IF_ERROR(OpenMeetingPlace(store_folder));
    const std::vector<ConstBytes> base = BytesOf(0);
    StreamInfo info;
    info.stream_id = "demo";
    info.base_fingerprint = BaseFingerprint(layout, base, runtime_.threads);
    info.base = runtime_.backend->Scan(layout, base, ScanScope::kAll, runtime_.threads);
    info.layout_digest = layout.digest();
    XORBIT_ASSIGN_OR_RETURN(Stream stream, Stream::Create(*store_, info, layout));
    stream_ = std::make_unique<Stream>(std::move(stream));
    XORBIT_ASSIGN_OR_RETURN(DemoTrainer trainer, DemoTrainer::Make(runtime_, *stream_, base));
    trainer_.emplace(std::move(trainer));
    XORBIT_RETURN_IF_ERROR(StartAlone());
    return StartPair();
  }

  // Publishes checkpoint `version`, and its folds after that. Publish returns the payload bytes.
  Result<uint64_t> Publish(uint64_t version) { return trainer_->Publish(BytesOf(version)); }
  Status Fold() { return trainer_->Fold(); }

  Status StartAlone() { return Start(CanonicalMap(stream_->layout()), *alone_member_, 0, &alone_); }
  Status StartLate() { return Start(DemoEngineMap(stream_->layout(), 0, 1), *late_member_, 0, &late_); }
  void KillAlone() { alone_.reset(); }
  Status StartPair() {
    return ParallelFor(2, 2, [&](uint64_t i) -> Status {  // they wait for each other
      const auto rank = static_cast<uint32_t>(i);
      CohortOptions options;
      options.rank = rank;
      options.rank_count = 2;
      XORBIT_ASSIGN_OR_RETURN(pair_members_[rank], MakeStoreCohort(*meeting_place_, options));
      return Start(DemoEngineMap(stream_->layout(), rank, 2), *pair_members_[rank], 0, &pair_[rank]);
    });
  }

  Status SyncAlone(uint64_t version) { return alone_->receiver().Sync(version); }
  Status SyncLate(uint64_t version) { return late_->receiver().Sync(version); }
  Status SyncPair(uint64_t version) {
    return ParallelFor(2, 2, [&](uint64_t rank) { return pair_[rank]->receiver().Sync(version); });
  }

  const SyncReport& alone_report() const { return alone_->receiver().report(); }
  const SyncReport* late_report() const { return late_ == nullptr ? nullptr : &late_->receiver().report(); }
  // Of the rank that stood longest.
  double pair_pause_seconds() const {
    return std::max(pair_[0]->receiver().report().pause_seconds, pair_[1]->receiver().report().pause_seconds);
  }

  Status ProveAlone(uint64_t version) { return Prove("the sampler that went back", *alone_, version); }
  Status ProveLate(uint64_t version) { return Prove("the sampler that came late", *late_, version); }
  Status ProvePair(uint64_t version) {
    XORBIT_RETURN_IF_ERROR(Prove("tensor-parallel rank 0", *pair_[0], version));
    return Prove("tensor-parallel rank 1", *pair_[1], version);
  }
  StateDigest StateOf(uint64_t version) {
    return runtime_.backend->Scan(stream_->layout(), BytesOf(version), ScanScope::kAll, runtime_.threads);
  }

 private:
  // Where the ranks of the pair meet: in memory, for the engine stands still while they write.
  Status OpenMeetingPlace(const fs::path& otherwise) {
    std::error_code ignored;
    const fs::path parent = fs::is_directory("/dev/shm", ignored) ? fs::path("/dev/shm") : otherwise.parent_path();
    XORBIT_ASSIGN_OR_RETURN(StagedFolder folder, StagedFolder::MakeScratch(*runtime_.file_ops, parent / "xorbit-demo-pair"));
    meeting_folder_.emplace(std::move(folder));
    XORBIT_ASSIGN_OR_RETURN(meeting_place_, OpenFolderStore(*runtime_.file_ops, meeting_folder_->path()));
    return {};
  }

  std::vector<ConstBytes> BytesOf(uint64_t version) const { return checkpoints_[version].all_tensor_bytes(); }

  Status Start(LiveMap map, CohortMember& member, uint64_t version, std::unique_ptr<GatedSampler>* sampler) {
    ReceiverOptions options;
    options.threads = runtime_.threads;
    auto memory = std::make_unique<HostMemory>(stream_->layout(), std::move(map));
    LoadTensors(memory->live(), BytesOf(version));
    XORBIT_ASSIGN_OR_RETURN(*sampler,
                            GatedSampler::Start(*stream_, *runtime_.backend, std::move(memory), version, member, options));
    return {};
  }

  Status Prove(std::string_view who, const GatedSampler& sampler, uint64_t version) const {
    if (HoldsTensors(sampler.memory().live(), BytesOf(version))) return {};
    return CorruptError(fmt::format("{} does not hold version {}", who, version));
  }

  const Runtime& runtime_;
  std::vector<fs::path> paths_;
  std::vector<Checkpoint> checkpoints_;
  std::unique_ptr<ObjectStore> store_;
  std::optional<StagedFolder> meeting_folder_;  // removed at the end
  std::unique_ptr<ObjectStore> meeting_place_;
  std::unique_ptr<Stream> stream_;
  std::optional<DemoTrainer> trainer_;
  std::unique_ptr<CohortMember> alone_member_ = AloneMember();
  std::unique_ptr<CohortMember> late_member_ = AloneMember();
  std::unique_ptr<CohortMember> pair_members_[2];
  std::unique_ptr<GatedSampler> alone_;
  std::unique_ptr<GatedSampler> late_;
  std::unique_ptr<GatedSampler> pair_[2];
};

// One version's way through the fleet.
struct FleetRow {
  uint64_t version = 0;
  uint64_t byte_count = 0;
  double publish_s = 0;
  std::string alone;
  double pair_pause_s = 0;
  std::string late;
};

std::string PauseText(const SyncReport& report) {
  return fmt::format("{} -> {} {:>8}", report.from, report.to, HumanSeconds(report.pause_seconds));
}

void AddRow(const FleetRow& row, FleetReport* report) {
  report->text +=
      fmt::format("{:>7} {:>9} {:>9}   {:<18} {:>10}   {}\n", row.version, HumanBytes(static_cast<double>(row.byte_count)),
                  HumanSeconds(row.publish_s), row.alone, HumanSeconds(row.pair_pause_s), row.late);
  report->rows.push_back(
      {{"version", row.version}, {"bytes", row.byte_count}, {"publish_s", row.publish_s}, {"pair_pause_s", row.pair_pause_s}});
}

}  // namespace

Result<FleetReport> RunFleet(const Runtime& runtime, const fs::path& store, const std::vector<fs::path>& checkpoints) {
  const uint64_t newest = checkpoints.size() - 1;
  const uint64_t killed_at = std::max<uint64_t>(1, newest / 2);
  const uint64_t late_at = std::max<uint64_t>(1, newest - 1);
  Fleet fleet(runtime, checkpoints);
  XORBIT_RETURN_IF_ERROR(fleet.Begin(store));
  FleetReport report;
  report.text = fmt::format(
      "the same updates as a stream: {} trainer ranks with shards; pauses of a sampler with the checkpoint's own layout, of "
      "two tensor-parallel ranks that change together, and of one with fused projections and stacked experts that comes "
      "late\n\n"
      "{:>7} {:>9} {:>9}   {:<18} {:>10}   {}\n",
      kDemoTrainerRanks, "version", "bytes", "publish", "alone", "pair", "late");
  for (uint64_t version = 1; version <= newest; ++version) {
    FleetRow row;
    row.version = version;
    const Stopwatch watch;
    XORBIT_ASSIGN_OR_RETURN(row.byte_count, fleet.Publish(version));
    row.publish_s = watch.seconds();
    XORBIT_RETURN_IF_ERROR(fleet.Fold());
    if (version == killed_at) {
      fleet.KillAlone();
      XORBIT_RETURN_IF_ERROR(fleet.StartAlone());  // from the base checkpoint, as a new process would
    }
    XORBIT_RETURN_IF_ERROR(fleet.SyncAlone(version));
    row.alone = PauseText(fleet.alone_report()) + (version == killed_at ? " killed" : "");
    XORBIT_RETURN_IF_ERROR(fleet.SyncPair(version));
    row.pair_pause_s = fleet.pair_pause_seconds();
    if (version >= late_at) {
      if (version == late_at) XORBIT_RETURN_IF_ERROR(fleet.StartLate());
      XORBIT_RETURN_IF_ERROR(fleet.SyncLate(version));
      row.late = PauseText(*fleet.late_report());
    }
    AddRow(row, &report);
  }
  XORBIT_RETURN_IF_ERROR(fleet.SyncAlone(killed_at));
  report.text += fmt::format("{:>27}   {:<18}\n\n", "", PauseText(fleet.alone_report()));
  XORBIT_RETURN_IF_ERROR(fleet.ProveAlone(killed_at));
  XORBIT_RETURN_IF_ERROR(fleet.ProvePair(newest));
  XORBIT_RETURN_IF_ERROR(fleet.ProveLate(newest));
  report.proofs.push_back(fmt::format("both tensor-parallel ranks and the late sampler hold version {} bit for bit, state {}",
                                      newest, ToText(fleet.StateOf(newest))));
  report.proofs.push_back(
      fmt::format("the sampler that was killed, came back and went back holds version {} bit for bit, state {}", killed_at,
                  ToText(fleet.StateOf(killed_at))));
  return report;
}

}  // namespace xorbit
