#include "backend/cpu/live_updates.h"

#include <utility>

#include "base/parallel.h"

namespace xorbit {
namespace {

Status LiveMoved() {
  return RefusedError("live weights are not what they were when this update was prepared: prepare it again");
}

Status CheckEpoch(const UpdateBasis& basis) {
  if (basis.map->epoch() == basis.epoch) return {};
  return RefusedError("the engine has moved its weights since this update was prepared: prepare it again");
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
    const Status status = loop_.ForEach(basis_.threads, [&](const RecordTurn& turn) -> Status {
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
    const Status status = loop_.ForEach(basis_.threads, [&](const RecordTurn& turn) -> Status {
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

class LoggedUpdate final : public PreparedUpdate {
 public:
  LoggedUpdate(UpdateBasis basis, std::vector<TouchLog> logs, bool with_olds)
      : basis_(std::move(basis)), logs_(std::move(logs)), with_olds_(with_olds), xored_(logs_.size(), 0) {}

  const PrepareReport& report() const override { return basis_.report; }

  Status Apply() override {
    if (applied_ && !with_olds_) return AppliedAlready();
    XORBIT_RETURN_IF_ERROR(CheckEpoch(basis_));
    const Status status = ParallelFor(basis_.threads, logs_.size(), [&](uint64_t index) -> Status {
      xored_[index] = 1;
      return (with_olds_ ? logs_[index].StoreNew() : logs_[index].Xor()) ? Status() : LiveMoved();
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

 private:
  void TakeBack() {
    // Nothing in it fails.
    (void)ParallelFor(basis_.threads, logs_.size(), [&](uint64_t index) -> Status {
      if (with_olds_) {
        logs_[index].StoreOld();
      } else if (std::exchange(xored_[index], 0) != 0) {
        logs_[index].Xor();
      }
      return {};
    });
  }

  UpdateBasis basis_;
  std::vector<TouchLog> logs_;
  bool with_olds_;
  std::vector<uint8_t> xored_;  // by log; each entry is used by one worker
  bool applied_ = false;
};

}  // namespace

std::unique_ptr<PreparedUpdate> MakeDecodedUpdate(UpdateBasis basis, RecordLoop loop, std::vector<uint64_t> local_sums) {
  return std::make_unique<DecodedUpdate>(std::move(basis), std::move(loop), std::move(local_sums));
}

std::unique_ptr<PreparedUpdate> MakeLoggedUpdate(UpdateBasis basis, std::vector<TouchLog> logs, bool with_olds) {
  return std::make_unique<LoggedUpdate>(std::move(basis), std::move(logs), with_olds);
}

}  // namespace xorbit
