// A trainer rank: owns its part of the model, and publishes every version through the store. On a device both states lie there,
// and a sender that was planned once encodes their difference; on the host it is a RankPublisher.
#include <memory>
#include <optional>

#include "backend/cpu/cpu_backend.h"
#include "backend/cuda/testing/part_sender.h"
#include "base/parallel.h"
#include "base/stopwatch.h"
#include "cli/ranks_run.h"
#include "publish/contribution.h"
#include "publish/decide.h"
#include "publish/rank_publisher.h"
#include "transport/folder_store.h"

namespace xorbit {
namespace {

constexpr std::chrono::minutes kPatience{5};

PublicationPlace PlaceAt(uint64_t version) { return {version - 1, version, "step"}; }

// What a rank does for a version, wherever its weights lie.
class TrainerPart {
 public:
  TrainerPart() = default;
  TrainerPart(const TrainerPart&) = delete;
  TrainerPart& operator=(const TrainerPart&) = delete;
  virtual ~TrainerPart() = default;

  // D over what it owns of version 0. First of all, once.
  virtual Result<StateDigest> Base() = 0;
  // From version 0 on. The stream outlives the part.
  virtual Status Join(Stream& stream) = 0;
  // Makes the next version, and puts payload and receipt into the store.
  virtual Status Contribute(uint64_t version, TrainerTimes* times) = 0;
  virtual Status Settle(const VersionRecord& decided) = 0;
};

class DevicePart final : public TrainerPart {
 public:
  DevicePart(const RanksRun& run, uint32_t rank, const RankPlan& plan) : run_(run), rank_(rank), plan_(plan) {}

  Result<StateDigest> Base() override {
    const SegmentMap& map = plan_.owned.front();
    const std::vector<FormulaPiece> pieces = PiecesOf(run_.model, map);
    const int device = run_.DeviceOf(rank_);
    XORBIT_ASSIGN_OR_RETURN(old_, MakeFormulaMemory(device, map.byte_count(), run_.model.formula, pieces));
    XORBIT_ASSIGN_OR_RETURN(new_, MakeFormulaMemory(device, map.byte_count(), run_.model.formula, pieces));
    const double share = static_cast<double>(map.byte_count()) / static_cast<double>(run_.model.byte_count());
    const auto room = static_cast<uint64_t>(static_cast<double>(run_.model.change_count()) * share * 1.02) + 100'000;
    XORBIT_RETURN_IF_ERROR(old_->Fill(false));
    XORBIT_RETURN_IF_ERROR(new_->Fill(true));
    XORBIT_ASSIGN_OR_RETURN(sender_, MakePartSender(device, run_.model.layout, map, old_->bytes(), new_->bytes(), room));
    XORBIT_ASSIGN_OR_RETURN(const SentPart sent, sender_->Encode());
    return sent.owner.base;
  }
  Status Join(Stream& stream) override {
    stream_ = &stream;
    return {};
  }
  Status Contribute(uint64_t version, TrainerTimes* times) override {
    Result<SentPart> sent = [&]() -> Result<SentPart> {
      const Turn turn(run_.board, rank_ % run_.device_count);
      XORBIT_RETURN_IF_ERROR(new_->Fill(RanksRun::IsChanged(version)));
      return sender_->Encode();
    }();
    XORBIT_RETURN_IF_ERROR(sent.status());
    times->encode_s = sent->encode_s;
    times->copy_out_s = sent->copy_out_s;
    const Stopwatch watch;
    XORBIT_RETURN_IF_ERROR(
        PutContribution(*stream_, PlaceAt(version), plan_, CodecId::kSparse, std::move(sent->owner), {}, DefaultThreadCount())
            .status());
    times->store_s = watch.seconds();
    return {};
  }
  Status Settle(const VersionRecord& /*decided*/) override {
    const Turn turn(run_.board, rank_ % run_.device_count);
    return sender_->BringForward();
  }

 private:
  const RanksRun& run_;
  uint32_t rank_;
  const RankPlan& plan_;
  std::unique_ptr<FormulaMemory> old_;
  std::unique_ptr<FormulaMemory> new_;
  std::unique_ptr<PartSender> sender_;
  Stream* stream_ = nullptr;
};

class HostPart final : public TrainerPart {
 public:
  HostPart(const RanksRun& run, const RankPlan& plan) : run_(run), plan_(plan) {}

  Result<StateDigest> Base() override {
    const SegmentMap& map = plan_.owned.front();
    XORBIT_ASSIGN_OR_RETURN(held_, MakeFormulaMemory(-1, map.byte_count(), run_.model.formula, PiecesOf(run_.model, map)));
    XORBIT_RETURN_IF_ERROR(held_->Fill(false));
    StateDigest base;
    const SegmentBytes bytes = SegmentBytes::InImage(map, held_->bytes());
    for (const StateDigest& part : backend_->DigestParts(run_.model.layout, map, bytes, DefaultThreadCount())) base += part;
    return base;
  }
  // From the served checkpoint, as every publisher: all of it, for a moment.
  Status Join(Stream& stream) override {
    XORBIT_ASSIGN_OR_RETURN(const auto served, MakeFormulaMemory(-1, run_.model.byte_count(), run_.model.formula,
                                                                 {{0, run_.model.byte_count(), 0}}));
    XORBIT_RETURN_IF_ERROR(served->Fill(false));
    std::vector<ConstBytes> tensors;
    for (size_t i = 0; i < run_.model.first_bytes.size(); ++i) {
      tensors.emplace_back(served->bytes().subspan(run_.model.first_bytes[i], run_.model.layout.tensors()[i].byte_count));
    }
    PublishOptions options;
    options.encode.threads = DefaultThreadCount();
    options.timers = &timers_;
    publisher_.emplace(RankPublisher::Make(stream, *backend_, plan_, tensors, options));
    return {};
  }
  Status Contribute(uint64_t version, TrainerTimes* times) override {
    XORBIT_RETURN_IF_ERROR(held_->Fill(RanksRun::IsChanged(version)));
    const SegmentMap& map = plan_.owned.front();
    std::vector<ConstBytes> parts;
    for (size_t i = 0; i < map.parts().size(); ++i) {
      const uint64_t first = map.part_start(i) * map.unit_bytes();
      parts.emplace_back(held_->bytes().subspan(first, map.part_start(i + 1) * map.unit_bytes() - first));
    }
    timers_ = {};
    {
      const Turn turn(run_.board, 0);
      XORBIT_RETURN_IF_ERROR(publisher_->Contribute(PlaceAt(version), parts));
    }
    for (const StageTimers::Entry& entry : timers_.entries()) {
      if (entry.name == "diff + encode") times->encode_s = entry.seconds;
      if (entry.name == "hash + store") times->store_s = entry.seconds;
    }
    return {};
  }
  Status Settle(const VersionRecord& decided) override {
    XORBIT_ASSIGN_OR_RETURN(const bool won, publisher_->Settle(decided));
    return won ? Status() : RefusedError("another publication has won");
  }

 private:
  const RanksRun& run_;
  const RankPlan& plan_;
  std::unique_ptr<Backend> backend_ = MakeCpuBackend();
  StageTimers timers_;
  std::unique_ptr<FormulaMemory> held_;
  std::optional<RankPublisher> publisher_;
};

// Rank 0 makes the stream, of whose version 0 each rank knows its own part's digest.
Result<Stream> MeetInStream(const RanksRun& run, uint32_t rank, ObjectStore& store) {
  Board* const board = run.board;
  XORBIT_RETURN_IF_ERROR(Meet(board, 0, run.trainer_count));
  if (rank > 0) {
    XORBIT_RETURN_IF_ERROR(Meet(board, 1, run.trainer_count));
    return Stream::Open(store, kRanksStream);
  }
  StreamInfo info;
  info.stream_id = kRanksStream;
  info.base_fingerprint = run.model.layout.digest();  // of a formula there are no files to hash
  info.layout_digest = run.model.layout.digest();
  for (uint32_t i = 0; i < run.trainer_count; ++i) info.base += board->trainers[i].base;
  XORBIT_ASSIGN_OR_RETURN(Stream stream, Stream::Create(store, info, run.model.layout));
  XORBIT_RETURN_IF_ERROR(Meet(board, 1, run.trainer_count));
  return stream;
}

}  // namespace

Status RunTrainer(const RanksRun& run, uint32_t rank) {
  XORBIT_ASSIGN_OR_RETURN(const RankPlan plan, TrainerPlan(run.model, rank, run.trainer_count));
  std::unique_ptr<TrainerPart> part;
  if (run.on_devices) {
    part = std::make_unique<DevicePart>(run, rank, plan);
  } else {
    part = std::make_unique<HostPart>(run, plan);
  }
  TrainerSlot& slot = run.board->trainers[rank];
  slot.byte_count = plan.owned.front().byte_count();
  XORBIT_ASSIGN_OR_RETURN(slot.base, part->Base());
  XORBIT_ASSIGN_OR_RETURN(const auto store, OpenFolderStore(PosixFileOps(), run.store));
  XORBIT_ASSIGN_OR_RETURN(Stream stream, MeetInStream(run, rank, *store));
  XORBIT_RETURN_IF_ERROR(part->Join(stream));
  for (uint64_t version = 1; version <= run.newest(); ++version) {
    XORBIT_RETURN_IF_ERROR(part->Contribute(version, &slot.times[version]));
    DecideOptions decide;
    decide.deadline = kPatience;
    XORBIT_ASSIGN_OR_RETURN(const VersionRecord decided, SealAndDecide(stream, PlaceAt(version), decide));
    XORBIT_RETURN_IF_ERROR(part->Settle(decided));
  }
  return {};
}

}  // namespace xorbit
