#include "backend/cpu/live_updates.h"

#include <algorithm>
#include <string>
#include <utility>

#include "backend/cpu/undo_log.h"
#include "base/parallel.h"
#include "base/shared_memory.h"

namespace xorbit {
namespace {

Status LiveMoved() {
  return RefusedError("live weights are not what they were when this update was prepared: prepare it again");
}

Status CheckEpoch(const UpdateBasis& basis) {
  if (basis.map->epoch() == basis.epoch) return {};
  return RefusedError("the engine has moved its weights since this update was prepared: prepare it again");
}

// A thread takes about as long to be there as one already there takes for this many changes, on a machine that is busy serving.
constexpr uint64_t kChangesPerThread = uint64_t{64} << 10;

int PauseThreads(const UpdateBasis& basis) {
  const uint64_t worthwhile = std::max<uint64_t>(1, basis.report.local_change_count / kChangesPerThread);
  return static_cast<int>(std::min<uint64_t>(static_cast<uint64_t>(std::max(basis.threads, 1)), worthwhile));
}

Status AppliedAlready() { return UsageError("this update has been applied already, and XOR would take it back: use Undo"); }

class DecodedUpdate final : public PreparedUpdate {
 public:
  DecodedUpdate(UpdateBasis basis, RecordLoop loop, std::vector<uint64_t> local_sums)
      : basis_(std::move(basis)), loop_(std::move(loop)), local_sums_(std::move(local_sums)), written_(local_sums_.size(), 0) {}

  const PrepareReport& report() const override { return basis_.report; }

  Status Apply() override {
    if (applied_) return AppliedAlready();
    XORBIT_RETURN_IF_ERROR(CheckEpoch(basis_));
    const Status status = loop_.ForEach(PauseThreads(basis_), [&](const RecordTurn& turn) -> Status {
      const uint64_t index = turn.segment->first_record + turn.record_index;
      uint64_t met = 0;
      const bool casts_fit = XorRecord(turn.planned, turn.scratch, &met);
      written_[index] = 1;
      return casts_fit && met == local_sums_[index] ? Status() : LiveMoved();
    });
    if (!status.ok()) XORBIT_RETURN_IF_ERROR(TakeBack());
    applied_ = status.ok();
    return status;
  }

  Status Undo() override {
    if (!applied_) return {};
    XORBIT_RETURN_IF_ERROR(CheckEpoch(basis_));
    XORBIT_RETURN_IF_ERROR(TakeBack());
    applied_ = false;
    return {};
  }

 private:
  // Every record decoded when it was prepared, so a failure here means failing memory.
  Status TakeBack() {
    const Status status = loop_.ForEach(PauseThreads(basis_), [&](const RecordTurn& turn) -> Status {
      uint8_t& written = written_[turn.segment->first_record + turn.record_index];
      if (std::exchange(written, 0) != 0) UnXorRecord(turn.planned, turn.scratch);
      return {};
    });
    return status.WithContext("undo failed, reload the weights");
  }

  UpdateBasis basis_;
  RecordLoop loop_;
  std::vector<uint64_t> local_sums_;
  std::vector<uint8_t> written_;  // by record; each entry is used by one worker
  bool applied_ = false;
};

// The logs are this process's own, also if undo memory has them too: what others can write is only for whoever comes after.
class LoggedUpdate final : public PreparedUpdate {
 public:
  LoggedUpdate(UpdateBasis basis, std::vector<TouchLog> logs, std::vector<MutableBytes> places, TouchLogKind kind,
               UndoMemory* undo = nullptr)
      : basis_(std::move(basis)),
        logs_(std::move(logs)),
        places_(std::move(places)),
        with_olds_(kind != TouchLogKind::kXors),
        undo_(undo),
        xored_(logs_.size(), 0) {
    for (const TouchLog& log : logs_) views_.push_back(log.view(places_));
  }

  const PrepareReport& report() const override { return basis_.report; }

  Status Apply() override {
    if (applied_ && !with_olds_) return AppliedAlready();
    XORBIT_RETURN_IF_ERROR(CheckEpoch(basis_));
    if (undo_ != nullptr) undo_->SetState(UndoState::kArmed);
    const Status status = ParallelFor(PauseThreads(basis_), views_.size(), [&](uint64_t index) -> Status {
      xored_[index] = 1;
      const TouchView& view = views_[index];
      return (with_olds_ ? view.StoreNew() : view.Xor() == logs_[index].before()) ? Status() : LiveMoved();
    });
    if (!status.ok()) TakeBack();
    applied_ = status.ok();
    return status;
  }

  Status Undo() override {
    if (!applied_ && !with_olds_) return {};
    XORBIT_RETURN_IF_ERROR(CheckEpoch(basis_));
    TakeBack();
    applied_ = false;
    return {};
  }

  void Settle() override {
    if (undo_ != nullptr && applied_) undo_->SetState(UndoState::kDone);
  }

 private:
  void TakeBack() {
    // Nothing in it fails.
    (void)ParallelFor(PauseThreads(basis_), views_.size(), [&](uint64_t index) -> Status {
      if (with_olds_) {
        views_[index].StoreOld();
      } else if (std::exchange(xored_[index], 0) != 0) {
        views_[index].Xor();
      }
      return {};
    });
    if (undo_ != nullptr) undo_->SetState(UndoState::kWaiting);
  }

  UpdateBasis basis_;
  std::vector<TouchLog> logs_;
  std::vector<MutableBytes> places_;
  std::vector<TouchView> views_;
  bool with_olds_;
  UndoMemory* undo_;
  std::vector<uint8_t> xored_;  // by view; each entry is used by one worker
  bool applied_ = false;
};

}  // namespace

std::unique_ptr<PreparedUpdate> MakeDecodedUpdate(UpdateBasis basis, RecordLoop loop, std::vector<uint64_t> local_sums) {
  return std::make_unique<DecodedUpdate>(std::move(basis), std::move(loop), std::move(local_sums));
}

std::unique_ptr<PreparedUpdate> MakeLoggedUpdate(UpdateBasis basis, std::vector<TouchLog> logs,
                                                 std::vector<MutableBytes> places, TouchLogKind kind) {
  return std::make_unique<LoggedUpdate>(std::move(basis), std::move(logs), std::move(places), kind);
}

Result<std::unique_ptr<PreparedUpdate>> MakeLastingUpdate(UpdateBasis basis, std::vector<TouchLog> logs,
                                                          std::vector<MutableBytes> places, UndoRecord record,
                                                          UndoMemory* undo) {
  const uint64_t log_bytes = UndoLogBytes(logs);
  const MutableBytes room = undo->log_room();
  if (log_bytes > room.size()) {
    return RefusedError("the undo log takes " + std::to_string(log_bytes) + " bytes, and undo memory has room for " +
                        std::to_string(room.size()) + ": give it more");
  }
  record.versions.after = record.versions.before + basis.report.change;
  XORBIT_RETURN_IF_ERROR(MakeRoom(room.first(log_bytes)));
  WriteUndoLog(logs, room, basis.threads);
  undo->Seal(record, log_bytes);
  return std::unique_ptr<PreparedUpdate>(
      std::make_unique<LoggedUpdate>(std::move(basis), std::move(logs), std::move(places), TouchLogKind::kLastingUndo, undo));
}

}  // namespace xorbit
