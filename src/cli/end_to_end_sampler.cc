// The sampler of `xorbit bench --end-to-end`: one rank that holds the share, follows the far store, and compares every byte
// with the formula after every update.
#include <memory>
#include <optional>
#include <thread>

#include "backend/cpu/cpu_backend.h"
#include "backend/cuda/cuda_backend.h"
#include "base/parallel.h"
#include "base/steady_clock.h"
#include "cli/end_to_end_run.h"
#include "receive/receiver.h"
#include "transport/folder_store.h"

namespace xorbit {
namespace {

constexpr std::chrono::microseconds kPoll{500};
constexpr std::chrono::minutes kPatience{5};

class ClockedEngine final : public Engine {
 public:
  int64_t paused_ns = 0;
  int64_t resumed_ns = 0;

  Status Pause(Deadline /*deadline*/) override {
    paused_ns = SteadyNs();
    return {};
  }
  Status Refresh(const std::vector<std::string>& /*callbacks*/, Deadline /*deadline*/) override { return {}; }
  Status Resume(uint64_t /*version*/, Deadline /*deadline*/) override {
    resumed_ns = SteadyNs();
    return {};
  }
};

class Sampler {
 public:
  explicit Sampler(const EndToEndRun& run) : run_(run) {}

  Status Start() {
    XORBIT_ASSIGN_OR_RETURN(store_, OpenFolderStore(PosixFileOps(), run_.far_store));
    XORBIT_RETURN_IF_ERROR(Await([&]() -> Result<bool> {
      Result<Stream> stream = Stream::Open(*store_, kEndToEndStream);
      if (!stream.ok()) return stream.status().code() == Code::kNotFound ? Result<bool>(false) : stream.status();
      stream_.emplace(std::move(*stream));
      return true;
    }));
    map_ = CanonicalMap(run_.model.layout);
    const RegionPlaces places = PlaceRegions(map_);
    XORBIT_ASSIGN_OR_RETURN(
        memory_, MakeFormulaMemory(run_.device(), places.byte_count, run_.model.formula, PiecesOf(run_.model, map_, places)));
    XORBIT_RETURN_IF_ERROR(memory_->Fill(false));
    for (size_t i = 0; i < places.offsets.size(); ++i) {
      regions_.push_back(memory_->bytes().subspan(places.offsets[i], map_.regions()[i].byte_count));
    }
    live_ = {&map_, regions_, {}};
    backend_ = MakeCpuBackend();
    if (run_.on_device) {
      XORBIT_ASSIGN_OR_RETURN(backend_, MakeCudaBackend());
    }
    ReceiverOptions options;
    options.threads = DefaultThreadCount();
    options.masks.decoder = run_.decoder;
    options.masks.validates_inner_hashes = run_.validates_payload_hash;
    if (run_.wants_spans) options.masks.spans = &spans_;
    options.release_state = !run_.keeps_state;
    if (!run_.serving) options.throttle = ServingThrottle::None();
    XORBIT_ASSIGN_OR_RETURN(receiver_, Receiver::Attach(*stream_, *backend_, live_, engine_, *member_, options, 0));
    return {};
  }

  Status Take(uint64_t version) {
    XORBIT_RETURN_IF_ERROR(Meet(run_.board, MeetingBefore(version), 2));
    XORBIT_RETURN_IF_ERROR(Await([&]() -> Result<bool> {
      XORBIT_ASSIGN_OR_RETURN(const std::optional<VersionRecord> record, stream_->Record(version));
      return record.has_value();
    }));
    log_.AddNow(version, "noticed");
    XORBIT_RETURN_IF_ERROR(receiver_->Prepare(version));
    log_.AddNow(version, "prepared");
    static_cast<void>(spans_.Take());  // of pre-flight
    XORBIT_RETURN_IF_ERROR(receiver_->Apply());
    receiver_->Release();
    for (const TimedSpan& span : spans_.Take()) log_.AddSpan(version, span);
    log_.Add(version, "paused", engine_.paused_ns);
    log_.Add(version, "resumed", engine_.resumed_ns);
    for (const StageTimers::Entry& entry : receiver_->report().timers.entries()) {
      log_.Add(version, "stage " + entry.name, static_cast<int64_t>(entry.seconds * 1e9));
    }
    log_.Add(version, "changes", static_cast<int64_t>(receiver_->report().change_count));
    XORBIT_ASSIGN_OR_RETURN(const uint64_t wrong, memory_->CountWrong(EndToEndRun::IsChanged(version)));
    log_.Add(version, "wrong bytes", static_cast<int64_t>(wrong));
    return {};
  }

  Status End() {
    XORBIT_RETURN_IF_ERROR(log_.Write(run_.marks / "sampler"));
    return Meet(run_.board, kEndMeeting, 2);
  }

 private:
  // Until `is_there`, which is asked again and again.
  Status Await(const std::function<Result<bool>()>& is_there) const {
    const auto deadline = std::chrono::steady_clock::now() + kPatience;
    for (;; std::this_thread::sleep_for(kPoll)) {
      XORBIT_ASSIGN_OR_RETURN(const bool there, is_there());
      if (there) return {};
      if (run_.board->stopped != 0) return RefusedError("another process of the benchmark has failed");
      if (std::chrono::steady_clock::now() > deadline) return RefusedError("nothing came over the link for five minutes");
    }
  }

  const EndToEndRun& run_;
  std::unique_ptr<ObjectStore> store_;
  std::optional<Stream> stream_;
  LiveMap map_;
  std::unique_ptr<FormulaMemory> memory_;
  std::vector<MutableBytes> regions_;
  LiveMemory live_;
  std::unique_ptr<Backend> backend_;
  ClockedEngine engine_;
  std::unique_ptr<CohortMember> member_ = AloneMember();
  SpanLog spans_;
  std::unique_ptr<Receiver> receiver_;
  MarkLog log_;
};

}  // namespace

Status RunEndToEndSampler(const EndToEndRun& run) {
  Sampler sampler(run);
  XORBIT_RETURN_IF_ERROR(sampler.Start());
  for (uint64_t version = 1; version <= run.round_count; ++version) XORBIT_RETURN_IF_ERROR(sampler.Take(version));
  return sampler.End();
}

}  // namespace xorbit
