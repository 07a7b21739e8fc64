// The trainer of `xorbit bench --end-to-end`. A sampler's GPU has several trainers' GPUs behind it, each with a part of the
// weights; here is one, and it plays all. The parts but the last are encoded beforehand, by the same code: on machines of their
// own they would be encoded meanwhile. From the step's end on the clock sees the last part's encoding, and all parts' hashing
// and storing.
#include <memory>
#include <optional>

#include "backend/cpu/cpu_backend.h"
#include "backend/cuda/cuda_backend.h"
#include "backend/cuda/testing/part_sender.h"
#include "base/parallel.h"
#include "cli/end_to_end_run.h"
#include "publish/contribution.h"
#include "publish/decide.h"
#include "transport/folder_store.h"

namespace xorbit {
namespace {

PublicationPlace PlaceAt(uint64_t version) { return {version - 1, version, "step"}; }

// Both states of one part, and what encodes their difference.
class PartEncoder {
 public:
  PartEncoder(const EndToEndRun& run, const Backend& backend, const RankPlan& plan)
      : run_(run), backend_(backend), plan_(plan), map_(plan.owned.front()) {}

  Status Make() {
    const std::vector<FormulaPiece> pieces = PiecesOf(run_.model, map_);
    XORBIT_ASSIGN_OR_RETURN(old_, MakeFormulaMemory(run_.device(), map_.byte_count(), run_.model.formula, pieces));
    XORBIT_ASSIGN_OR_RETURN(new_, MakeFormulaMemory(run_.device(), map_.byte_count(), run_.model.formula, pieces));
    if (!run_.on_device || run_.codec == CodecId::kZstd) return {};  // the backend says what it thinks of Zstd
    const auto room = static_cast<uint64_t>(static_cast<double>(map_.element_count()) * ExpectedDensity() * 1.02) + 100'000;
    XORBIT_ASSIGN_OR_RETURN(
        sender_, MakePartSender(run_.device(), run_.model.layout, map_, old_->bytes(), new_->bytes(), room, run_.codec));
    return {};
  }
  // The states before and after the step to `version`.
  Status Step(uint64_t version) {
    XORBIT_RETURN_IF_ERROR(old_->Fill(EndToEndRun::IsChanged(version - 1)));
    return new_->Fill(EndToEndRun::IsChanged(version));
  }
  Result<EncodedOwner> Encode() {
    if (sender_ != nullptr) {
      XORBIT_ASSIGN_OR_RETURN(SentPart part, sender_->Encode());
      return std::move(part.owner);
    }
    const std::vector<SegmentBytes> old_bytes = {SegmentBytes::InImage(map_, old_->bytes())};
    const std::vector<SegmentBytes> new_bytes = {SegmentBytes::InImage(map_, new_->bytes())};
    EncodeOptions options;
    options.threads = DefaultThreadCount();
    return backend_.EncodeDiff(run_.model.layout, plan_.owned, {.bytes = old_bytes}, new_bytes, run_.codec, options);
  }

 private:
  double ExpectedDensity() const {
    const ChangeFormula& formula = run_.model.formula;
    const double cells = static_cast<double>(cuda::testing::kCellBytes) / formula.unit_bytes;
    return (static_cast<double>(formula.element_threshold) + static_cast<double>(formula.cell_threshold) / cells) /
           4294967296.0;
  }

  const EndToEndRun& run_;
  const Backend& backend_;
  const RankPlan& plan_;
  const SegmentMap& map_;
  std::unique_ptr<FormulaMemory> old_;
  std::unique_ptr<FormulaMemory> new_;
  std::unique_ptr<PartSender> sender_;
};

class Trainer {
 public:
  explicit Trainer(const EndToEndRun& run) : run_(run) {}

  Status Start() {
    XORBIT_ASSIGN_OR_RETURN(plans_, PlanTrainers(run_.model, run_.owner_count));
    backend_ = MakeCpuBackend();
    if (run_.on_device) {
      XORBIT_ASSIGN_OR_RETURN(backend_, MakeCudaBackend());
    }
    StateDigest base;
    for (const RankPlan& plan : plans_) {
      last_.emplace(run_, *backend_, plan);  // gives the memory of the one before back first
      XORBIT_RETURN_IF_ERROR(last_->Make());
      for (uint64_t version = 1; version <= 2; ++version) {
        XORBIT_RETURN_IF_ERROR(last_->Step(version));
        XORBIT_ASSIGN_OR_RETURN(EncodedOwner encoded, last_->Encode());
        if (version == 1) base += encoded.base;
        ready_[version % 2].push_back(std::move(encoded));
      }
    }
    XORBIT_ASSIGN_OR_RETURN(store_, OpenFolderStore(PosixFileOps(), run_.near_store));
    StreamInfo info;
    info.stream_id = kEndToEndStream;
    info.base_fingerprint = run_.model.layout.digest();  // of a formula there are no files to hash
    info.layout_digest = run_.model.layout.digest();
    info.base = base;
    XORBIT_ASSIGN_OR_RETURN(Stream stream, Stream::Create(*store_, info, run_.model.layout));
    stream_.emplace(std::move(stream));
    return {};
  }

  Status Publish(uint64_t version) {
    XORBIT_RETURN_IF_ERROR(last_->Step(version));
    std::vector<EncodedOwner> owners = ready_[version % 2];
    XORBIT_RETURN_IF_ERROR(Meet(run_.board, MeetingBefore(version), 2));
    log_.AddNow(version, "step done");
    XORBIT_ASSIGN_OR_RETURN(owners.back(), last_->Encode());
    log_.AddNow(version, "encoded");
    const int threads = std::max(1, DefaultThreadCount() / static_cast<int>(owners.size()));
    std::vector<uint64_t> byte_counts(owners.size());
    XORBIT_RETURN_IF_ERROR(ParallelFor(DefaultThreadCount(), owners.size(), [&](uint64_t i) -> Status {
      XORBIT_ASSIGN_OR_RETURN(const Payload payload, PutContribution(*stream_, PlaceAt(version), plans_[i], run_.codec,
                                                                     std::move(owners[i]), {}, threads));
      byte_counts[i] = payload.byte_count;
      return {};
    }));
    log_.AddNow(version, "stored");
    XORBIT_ASSIGN_OR_RETURN(const VersionRecord decided, SealAndDecide(*stream_, PlaceAt(version), {}));
    log_.AddNow(version, "decided");
    int64_t payload_bytes = 0;
    for (const uint64_t byte_count : byte_counts) payload_bytes += static_cast<int64_t>(byte_count);
    log_.Add(version, "payload bytes", payload_bytes);
    return {};
  }

  Status End() {
    XORBIT_RETURN_IF_ERROR(log_.Write(run_.marks / "trainer"));
    return Meet(run_.board, kEndMeeting, 2);
  }

 private:
  const EndToEndRun& run_;
  std::vector<RankPlan> plans_;
  std::unique_ptr<Backend> backend_;
  std::optional<PartEncoder> last_;
  std::array<std::vector<EncodedOwner>, 2> ready_;  // of odd and of even versions' steps
  std::unique_ptr<ObjectStore> store_;
  std::optional<Stream> stream_;
  MarkLog log_;
};

}  // namespace

Status RunEndToEndTrainer(const EndToEndRun& run) {
  Trainer trainer(run);
  XORBIT_RETURN_IF_ERROR(trainer.Start());
  for (uint64_t version = 1; version <= run.round_count; ++version) XORBIT_RETURN_IF_ERROR(trainer.Publish(version));
  return trainer.End();
}

}  // namespace xorbit
