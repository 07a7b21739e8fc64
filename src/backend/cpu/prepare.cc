#include "backend/cpu/prepare.h"

#include <algorithm>
#include <atomic>
#include <mutex>
#include <string>

#include "backend/cpu/alias_check.h"
#include "backend/cpu/live_updates.h"
#include "backend/cpu/update_form.h"
#include "base/text.h"

namespace xorbit {
namespace {

class Preparation {
 public:
  Preparation(const Layout& layout, std::span<const PayloadView> payloads, const LiveMemory& live,
              const PrepareOptions& options, RecordLoop loop)
      : layout_(layout),
        payloads_(payloads),
        live_(live),
        options_(options),
        loop_(std::move(loop)),
        aliases_(layout, loop_.map()),
        log_kind_(ChooseLog(options, ExpectedLogBytes(payloads, HeldShare(layout, loop_.map())))),
        keeps_log_(log_kind_.has_value()),
        local_sums_(loop_.record_count()),
        logs_(keeps_log_ ? loop_.stretch_count() : 0, TouchLog(log_kind_.value_or(TouchLogKind::kXors))),
        found_(payloads.size()),
        complete_(payloads.size(), true),
        derived_(loop_.map().derived().size(), 0) {
    if (options.partial) report_.sums.resize(payloads.size());
    for (const OpenedSegment& segment : loop_.segments()) {
      if (!segment.present) complete_[segment.payload_index] = false;
      if (!options.partial) continue;
      sums_start_.push_back(report_.sums[segment.payload_index].size());
      report_.sums[segment.payload_index].resize(sums_start_.back() + segment.decoder->record_count());
    }
  }

  Result<std::unique_ptr<PreparedUpdate>> Prepare() {
    XORBIT_RETURN_IF_ERROR(loop_.ForEach(options_.threads, [&](const RecordTurn& turn) { return Take(turn); }));
    if (!options_.is_portion) XORBIT_RETURN_IF_ERROR(aliases_.Finish());
    XORBIT_RETURN_IF_ERROR(AddUpTotals());
    report_.record_count = loop_.record_count();
    for (uint32_t i = 0; i < derived_.size(); ++i) {
      if (derived_[i] != 0) report_.derived.push_back(i);
    }
    const bool logged = keeps_log_.load();
    report_.staged_bytes = logged ? log_bytes_.load() : local_sums_.size() * sizeof(uint64_t);
    UpdateBasis basis{std::move(report_), &loop_.map(), loop_.map().epoch(), options_.threads};
    if (logged && log_kind_ == TouchLogKind::kLastingUndo) {
      return MakeLastingUpdate(std::move(basis), std::move(logs_), loop_.places(), UndoRecordOf(live_, options_.undo_versions),
                               options_.undo_memory);
    }
    if (logged) return MakeLoggedUpdate(std::move(basis), std::move(logs_), loop_.places(), *log_kind_);
    return MakeDecodedUpdate(std::move(basis), std::move(loop_), std::move(local_sums_));
  }

 private:
  Status Take(const RecordTurn& turn) {
    const LiveSums sums = WeighRecord(turn.planned, turn.scratch);
    XORBIT_RETURN_IF_ERROR(Compare(turn, sums));
    const uint64_t index = turn.segment->first_record + turn.record_index;
    local_sums_[index] = sums.written;
    if (options_.partial) {
      const auto segment_index = static_cast<size_t>(turn.segment - loop_.segments().data());
      report_.sums[turn.segment->payload_index][sums_start_[segment_index] + turn.record_index] = {sums.counted.before,
                                                                                                   sums.counted.after};
    }
    aliases_.Add(turn);
    KeepLog(turn);
    const std::lock_guard lock(mutex_);
    found_[turn.segment->payload_index] += sums.counted;
    report_.change_count += turn.planned.record->count;
    report_.local_change_count += sums.written_bits / (8 * turn.planned.unit_bytes);
    NoteDerived(turn);
    return {};
  }

  Status Compare(const RecordTurn& turn, const LiveSums& sums) const {
    if (!turn.segment->present) return {};
    if (!sums.copies_agree) return LiveError(turn, "live copies of one tensor differ from each other: ");
    if (options_.partial) return {};
    if (sums.counted_bits != turn.planned.record->count * 8 * turn.planned.unit_bytes) {
      return LiveError(turn,
                       "this memory does not hold every changed element (one rank of several must be prepared as partial): ");
    }
    const RecordSums found{sums.counted.before, sums.counted.after};
    if (turn.segment->has_digests && found != StatedSums(turn.info, options_.direction)) {
      return LiveError(turn, "live weights are not the state this delta starts from: ");
    }
    return {};
  }

  Status LiveError(const RecordTurn& turn, const std::string& what) const {
    const Run run = RunAt(turn.segment->segment->map, turn.info.first);
    return RefusedError(what + "tensor " + Quoted(layout_.tensors()[run.tensor_index].name) + " at or after element " +
                        std::to_string(run.tensor_element));
  }

  // Appends what the record writes, as long as all logs together stay within the budget: more than expected may be held here.
  void KeepLog(const RecordTurn& turn) {
    if (!keeps_log_.load(std::memory_order_relaxed)) return;
    TouchLog& log = logs_[turn.stretch_index];
    const uint64_t before = log.byte_count();
    log.Append(turn.planned);
    if (turn.ends_stretch) log.ShrinkToFit();
    const uint64_t all = log_bytes_ += log.byte_count() - before;
    if (log_kind_ != TouchLogKind::kXors || all <= options_.localise_budget_bytes) return;
    keeps_log_ = false;
  }

  // Under mutex_.
  void NoteDerived(const RecordTurn& turn) {
    if (derived_.empty() || !turn.segment->present) return;
    ForEachTensorRun(turn, [&](uint32_t tensor_index, uint64_t /*to_tensor*/, uint32_t /*begin*/, uint32_t /*end*/) {
      const auto all = loop_.map().derived();
      auto one = std::lower_bound(all.begin(), all.end(), tensor_index,
                                  [](const DerivedBinding& binding, uint32_t tensor) { return binding.tensor_index < tensor; });
      for (; one != all.end() && one->tensor_index == tensor_index; ++one) derived_[static_cast<size_t>(one - all.begin())] = 1;
    });
  }

  Status AddUpTotals() {
    for (size_t p = 0; p < payloads_.size(); ++p) {
      report_.change += found_[p].change();
      if (options_.partial || options_.is_portion || !complete_[p] || !payloads_[p].has_digests()) continue;
      const StateDigest stated = payloads_[p].change();
      if (found_[p].change() == (options_.direction == Direction::kForward ? stated : StateDigest{} - stated)) continue;
      return RefusedError(
          "live weights are not the state this delta starts from: the digests of the whole change do not agree");
    }
    return {};
  }

  const Layout& layout_;
  std::span<const PayloadView> payloads_;
  const LiveMemory& live_;
  PrepareOptions options_;
  RecordLoop loop_;
  AliasCheck aliases_;
  std::vector<size_t> sums_start_;  // by segment: its first record in report_.sums of its payload
  std::optional<TouchLogKind> log_kind_;
  std::atomic<bool> keeps_log_;
  std::atomic<uint64_t> log_bytes_{0};
  std::vector<uint64_t> local_sums_;  // by record, counted over all segments; each entry is written by one worker
  std::vector<TouchLog> logs_;        // by stretch, likewise

  std::mutex mutex_;                 // guards what follows and the report's counts
  std::vector<ChangeDigest> found_;  // by payload
  PrepareReport report_;

  std::vector<bool> complete_;    // by payload: no segment is absent
  std::vector<uint8_t> derived_;  // by binding; guarded by mutex_
};

}  // namespace

Result<std::unique_ptr<PreparedUpdate>> PrepareUpdate(const Backend& backend, const Layout& layout,
                                                      std::span<const PayloadView> payloads, const LiveMemory& live,
                                                      const PrepareOptions& options) {
  XORBIT_RETURN_IF_ERROR(CheckMemory(layout, live));
  XORBIT_ASSIGN_OR_RETURN(RecordLoop loop, RecordLoop::Open(backend, layout, payloads, live));
  return Preparation(layout, payloads, live, options, std::move(loop)).Prepare();
}

}  // namespace xorbit
