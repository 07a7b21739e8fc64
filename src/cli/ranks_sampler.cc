// A sampler rank: holds its share of the model where an engine would, follows the stream with the other ranks, and compares
// every byte with the formula after every update, wanted or spoilt by a kill.
#include <sys/time.h>
#include <unistd.h>

#include <csignal>
#include <memory>
#include <utility>

#include "backend/cpu/cpu_backend.h"
#include "backend/cuda/cuda_backend.h"
#include "base/parallel.h"
#include "base/steady_clock.h"
#include "cli/ranks_run.h"
#include "receive/receiver.h"
#include "receive/store_cohort.h"
#include "store/store_keys.h"
#include "transport/folder_store.h"
#include "transport/host_cache.h"

namespace xorbit {
namespace {

constexpr int kMostTries = 5;  // of an update that others have spoilt

// It only notes when it is stopped and when it serves.
class ClockedEngine final : public Engine {
 public:
  int64_t closed_ns = 0;
  int64_t open_ns = 0;

  Status Pause(Deadline /*deadline*/) override {
    closed_ns = SteadyNs();
    return {};
  }
  Status Refresh(const std::vector<std::string>& /*callbacks*/, Deadline /*deadline*/) override { return {}; }
  Status Resume(uint64_t /*version*/, Deadline /*deadline*/) override {
    open_ns = SteadyNs();
    return {};
  }
};

void KillMyself() { ::kill(::getpid(), SIGKILL); }

// A rank's place in its cohort, whose process can be made to die at a step.
class MortalMember final : public CohortMember {
 public:
  MortalMember(std::unique_ptr<CohortMember> member, const RanksRun& run, bool can_die)
      : member_(std::move(member)), run_(run), can_die_(can_die) {}

  // In the next session. `apply_s`: about how long an apply takes.
  void DieAt(Death death, double apply_s) {
    death_ = death;
    apply_s_ = apply_s;
  }

  bool partial() const override { return member_->partial(); }
  const std::string& last_reason() const override { return member_->last_reason(); }
  Result<std::optional<CohortStanding>> Join() override { return member_->Join(); }
  Result<std::optional<SessionTarget>> Pending() override { return member_->Pending(); }
  Result<SessionTarget> Open(const SessionTarget& wanted) override {
    Result<SessionTarget> target = member_->Open(wanted);
    if (target.ok() && can_die_) ++run_.board->opened[target->to];
    to_ = wanted.to;
    return target;
  }
  Result<bool> AwaitGo(const PreparedReceipt& receipt) override {
    if (death_ == Death::kPrepared) {
      while (run_.board->opened[to_] < run_.rank_count) ::usleep(100);  // so that it is this session that lacks a rank
      KillMyself();
    }
    Result<bool> go = member_->AwaitGo(receipt);
    if (death_ == Death::kGone) KillMyself();
    return go;
  }
  Result<bool> AwaitGate(const std::string& failure) override {
    Result<bool> all_gated = member_->AwaitGate(failure);
    if (death_ == Death::kApplying) {
      ::signal(SIGALRM, [](int /*signal*/) { KillMyself(); });
      itimerval timer{};
      timer.it_value.tv_usec = static_cast<suseconds_t>(apply_s_ * 0.5e6) % 1'000'000 + 1;
      ::setitimer(ITIMER_REAL, &timer, nullptr);
    }
    return all_gated;
  }
  Result<bool> AwaitOutcome(const std::string& failure, const StateDigest& state) override {
    while (death_ == Death::kApplying) ::pause();  // until the alarm: it never says that it has applied
    return member_->AwaitOutcome(failure, state);
  }

 private:
  std::unique_ptr<CohortMember> member_;
  const RanksRun& run_;
  bool can_die_;
  std::optional<Death> death_;
  double apply_s_ = 0;
  uint64_t to_ = 0;
};

double SecondsOf(const StageTimers& timers, std::string_view name) {
  for (const StageTimers::Entry& entry : timers.entries()) {
    if (entry.name == name) return entry.seconds;
  }
  return 0;
}

class Sampler {
 public:
  Sampler(const RanksRun& run, uint32_t index)
      : run_(run), index_(index), rank_(index % run.rank_count), slot_(run.board->samplers[index]) {}

  // Version 0 in memory, as after a checkpoint was loaded; then what the cohort has committed meanwhile.
  Status Start() {
    XORBIT_ASSIGN_OR_RETURN(map_, SamplerMap(run_.model, rank_, run_.rank_count));
    const RegionPlaces places = PlaceRegions(map_);
    XORBIT_ASSIGN_OR_RETURN(memory_, MakeFormulaMemory(run_.DeviceOf(index_), places.byte_count, run_.model.formula,
                                                       PiecesOf(run_.model, map_, places)));
    XORBIT_RETURN_IF_ERROR(memory_->Fill(false));
    for (size_t i = 0; i < places.offsets.size(); ++i) {
      regions_.push_back(memory_->bytes().subspan(places.offsets[i], map_.regions()[i].byte_count));
      slot_.byte_count += life_ == 0 ? map_.regions()[i].byte_count : 0;
    }
    live_ = {&map_, regions_, {}};
    XORBIT_RETURN_IF_ERROR(OpenStores());
    ReceiverOptions options;
    options.threads = threads_;
    XORBIT_ASSIGN_OR_RETURN(receiver_, Receiver::Attach(*stream_, *backend_, live_, engine_, *member_, options, 0));
    return {};
  }

  Status Run(uint32_t life) {
    life_ = life;
    XORBIT_RETURN_IF_ERROR(Start());
    uint64_t version = 1;
    if (life > 0) {
      version = slot_.resumes_at;
      XORBIT_ASSIGN_OR_RETURN(slot_.back_wrong_bytes[version], CountWrong(version - 1));
      XORBIT_RETURN_IF_ERROR(TakeUpdate(version));
      ++version;
    }
    for (; version <= run_.newest(); ++version) {
      XORBIT_RETURN_IF_ERROR(Meet(run_.board, MeetingOf(version), run_.sampler_count()));
      if (run_.DeathAt(version) && engine() == 0) XORBIT_RETURN_IF_ERROR(SufferDeath(version));
      XORBIT_RETURN_IF_ERROR(TakeUpdate(version));
    }
    XORBIT_ASSIGN_OR_RETURN(slot_.state,
                            backend_->ScanLive(run_.model.layout, live_, ScanScope::kAll, threads_, ServingThrottle::None()));
    return receiver_->Verify();
  }

 private:
  uint32_t engine() const { return index_ / run_.rank_count; }
  static uint32_t MeetingOf(uint64_t version) { return static_cast<uint32_t>(2 * version); }

  Status OpenStores() {
    FileOps& ops = PosixFileOps();
    XORBIT_ASSIGN_OR_RETURN(far_, OpenFolderStore(ops, run_.store));
    HostCacheOptions cache;
    cache.keeps = IsPayloadKey;
    near_ = OpenHostCache(*far_, ops, run_.cache, cache, &slot_.fetched);
    XORBIT_ASSIGN_OR_RETURN(Stream stream, Stream::Open(*near_, kRanksStream));
    stream_ = std::make_unique<Stream>(std::move(stream));
    XORBIT_ASSIGN_OR_RETURN(meeting_place_, OpenFolderStore(ops, run_.meeting_place));
    std::unique_ptr<CohortMember> member = AloneMember();
    if (run_.rank_count > 1) {
      CohortOptions options;
      options.prefix = "engine-" + std::to_string(engine());
      options.rank = rank_;
      options.rank_count = run_.rank_count;
      XORBIT_ASSIGN_OR_RETURN(member, MakeStoreCohort(*meeting_place_, options));
    }
    member_ = std::make_unique<MortalMember>(std::move(member), run_, engine() == 0);
    backend_ = MakeCpuBackend();
    if (run_.on_devices) {
      XORBIT_ASSIGN_OR_RETURN(backend_, MakeCudaBackend());
    }
    return {};
  }

  Result<uint64_t> CountWrong(uint64_t version) { return memory_->CountWrong(RanksRun::IsChanged(version)); }

  // An update that a rank does not live through: this one or another.
  Status SufferDeath(uint64_t version) {
    if (run_.VictimAt(version) == rank_) {
      slot_.resumes_at = version;
      member_->DieAt(*run_.DeathAt(version), SecondsOf(receiver_->report().timers, "apply"));
      const Status status = receiver_->Sync(version);
      return CorruptError("a rank outlived its death: " + status.message());
    }
    engine_.closed_ns = 0;
    const Status status = receiver_->Sync(version);
    if (status.ok()) return CorruptError("a rank went to a version that another was killed before it could apply");
    if (status.code() != Code::kRefused || receiver_->state() != SyncState::kIdle) return status;
    if (receiver_->version() != version - 1) return CorruptError("a rank went to another version after one was killed");
    if (engine_.closed_ns != 0) {
      slot_.back_closed_ns[version] = engine_.closed_ns;
      slot_.back_open_ns[version] = engine_.open_ns;
    }
    XORBIT_ASSIGN_OR_RETURN(slot_.back_wrong_bytes[version], CountWrong(version - 1));
    return Meet(run_.board, MeetingOf(version) + 1, run_.rank_count);
  }

  Status TakeUpdate(uint64_t version) {
    if (life_ > 0 && version == slot_.resumes_at) {
      XORBIT_RETURN_IF_ERROR(Meet(run_.board, MeetingOf(version) + 1, run_.rank_count));
    }
    Status status;
    for (int tries = 0; receiver_->version() != version && tries < kMostTries; ++tries) status = receiver_->Sync(version);
    if (receiver_->version() != version) return status;
    const SyncReport& report = receiver_->report();
    SamplerTimes& times = slot_.times[version];
    times.gate_closed_ns = engine_.closed_ns;
    times.gate_open_ns = engine_.open_ns;
    times.fetch_s = SecondsOf(report.timers, "fetch + fold");
    times.prepare_s = SecondsOf(report.timers, "prepare");
    times.gate_s = SecondsOf(report.timers, "gate");
    times.apply_s = SecondsOf(report.timers, "apply");
    times.outcome_s = SecondsOf(report.timers, "outcome");
    times.change_count = report.change_count;
    XORBIT_ASSIGN_OR_RETURN(times.wrong_bytes, CountWrong(version));
    return {};
  }

  const RanksRun& run_;
  const uint32_t index_;
  const uint32_t rank_;
  SamplerSlot& slot_;
  uint32_t life_ = 0;
  const int threads_ = std::max(1, DefaultThreadCount() / static_cast<int>(run_.sampler_count()));

  LiveMap map_;
  std::unique_ptr<FormulaMemory> memory_;
  std::vector<MutableBytes> regions_;
  LiveMemory live_;
  std::unique_ptr<ObjectStore> far_;
  std::unique_ptr<ObjectStore> near_;
  std::unique_ptr<ObjectStore> meeting_place_;
  std::unique_ptr<Stream> stream_;
  std::unique_ptr<Backend> backend_;
  ClockedEngine engine_;
  std::unique_ptr<MortalMember> member_;
  std::unique_ptr<Receiver> receiver_;
};

}  // namespace

Status RunSampler(const RanksRun& run, uint32_t index, uint32_t life) { return Sampler(run, index).Run(life); }

}  // namespace xorbit
