#include "receive/receiver.h"

#include <algorithm>
#include <cassert>

#include "receive/record_shares.h"

namespace xorbit {

// The whole way, or its first delta where there can be no fold: over memory that the host cannot read, or where it could not be
// proven, for what is absent here has no digest to compare with.
Result<std::vector<Hop>> Receiver::PlanRoute(uint64_t target) {
  const Stage timed(&report_.timers, "route");
  XORBIT_ASSIGN_OR_RETURN(std::vector<Hop> route, stream_.Route(version_, target));
  if (route.size() <= 1) return route;
  XORBIT_ASSIGN_OR_RETURN(const bool can_fold, backend_.CanFoldOver(live_));
  if (!can_fold || (LacksGroups() && TurnsBack(route))) route.resize(1);
  return route;
}

Status Receiver::FetchRoute(std::span<const Hop> route) {
  const Stage timed(&report_.timers, "fetch + fold");
  const StagingOptions options{options_.threads, cohort_.partial(), options_.staging_limit_bytes};
  XORBIT_ASSIGN_OR_RETURN(staged_, StageRoute(stream_, backend_, live_, route, options));
  report_.object_count = staged_->object_count;
  report_.fetched_bytes += staged_->fetched_bytes;
  return {};
}

Status Receiver::OpenAndStage(uint64_t target) {
  bool is_open = false;
  Status status;
  for (int attempt = 0; attempt < 3; ++attempt) {
    XORBIT_ASSIGN_OR_RETURN(std::vector<Hop> route, PlanRoute(target));
    if (!is_open) {
      XORBIT_ASSIGN_OR_RETURN(session_, cohort_.Open({version_, EndOf(route.back())}));
      is_open = true;
    }
    if (session_.from != version_ || session_.to == version_) {
      return RefusedError("this rank holds " + VersionName(version_) + ", the cohort's session starts from " +
                          VersionName(session_.from));
    }
    target = session_.to;
    if (EndOf(route.back()) != target) {
      XORBIT_ASSIGN_OR_RETURN(route, PlanRoute(target));
      if (EndOf(route.back()) != target)
        return RefusedError("this rank cannot go to " + VersionName(target) + " in one update");
    }
    status = FetchRoute(route);
    if (status.code() != Code::kNotFound) break;  // removed meanwhile: there is another way
  }
  return status;
}

Status Receiver::PreparePayloads() {
  const Stage timed(&report_.timers, "prepare");
  // A fold without digests rests on the whole state.
  if (!staged_->is_proven) {
    XORBIT_ASSIGN_OR_RETURN(const Holding held, Scan());
    if (held != holding_) return Break(WrittenByOthers());
  }
  PrepareOptions options;
  options.threads = options_.threads;
  options.direction = staged_->direction;
  options.keep_undo_log = options_.keep_undo_log;
  if (undo_) options.undo_memory = &*undo_;
  options.undo_versions = {version_, staged_->to, holding_.updated, {}, holding_.frozen};
  options.partial = cohort_.partial();
  options.localise_budget_bytes = options_.localise_budget_bytes;
  options.throttle = throttle_;
  options.masks = options_.masks;
  options.masks.kept = &kept_;
  prepared_epoch_ = live_.map->epoch();
  XORBIT_ASSIGN_OR_RETURN(prepared_, backend_.Prepare(stream_.layout(), staged_->payloads(), live_, options));
  callbacks_.clear();
  for (const uint32_t index : prepared_->report().derived) AddCallback(live_.map->derived()[index].callback);
  report_.change_count = prepared_->report().change_count;
  report_.staged_bytes = staged_->held_bytes + prepared_->report().staged_bytes;
  return {};
}

Result<PreparedReceipt> Receiver::MakeReceipt() {
  PreparedReceipt receipt;
  receipt.target = session_;
  XORBIT_ASSIGN_OR_RETURN(const std::optional<StateDigest> from, UpdatedDigestOf(session_.from));
  XORBIT_ASSIGN_OR_RETURN(const std::optional<StateDigest> to, UpdatedDigestOf(session_.to));
  if (from && to) {
    receipt.shares.push_back({"the state", holding_.updated, *from});
    receipt.shares.push_back({"the change", prepared_->report().change, *to - *from});
  }
  if (cohort_.partial()) {
    RecordShares records = staged_->shares;
    if (!staged_->is_folded) {
      XORBIT_RETURN_IF_ERROR(
          records.Add(backend_, *live_.map, staged_->payloads(), staged_->direction, prepared_->report().sums));
    }
    receipt.shares.insert(receipt.shares.end(), records.shares().begin(), records.shares().end());
  }
  return receipt;
}

Status Receiver::Prepare(uint64_t target) {
  if (state_ != SyncState::kIdle) return UsageError("the receiver is " + std::string(NameOf(state_)) + ", not idle");
  Release();
  XORBIT_RETURN_IF_ERROR(engine_.CheckReach());
  XORBIT_RETURN_IF_ERROR(CheckHeld());
  XORBIT_RETURN_IF_ERROR(FollowEpoch());
  if (target == version_) return {};
  report_ = SyncReport();
  report_.from = version_;
  report_.to = target;
  session_ = {};
  Move(SyncEvent::kPrepare);
  const Status status = [&]() -> Status {
    XORBIT_RETURN_IF_ERROR(OpenAndStage(target));
    report_.to = session_.to;
    XORBIT_ASSIGN_OR_RETURN(const VersionRecord record, stream_.CommittedRecord(session_.to));
    target_state_ = record.target;
    XORBIT_RETURN_IF_ERROR(PreparePayloads());
    XORBIT_ASSIGN_OR_RETURN(receipt_, MakeReceipt());
    return {};
  }();
  if (status.ok()) {
    Move(SyncEvent::kStaged);
    return {};
  }
  // The others need not wait for this rank.
  if (session_ != SessionTarget()) static_cast<void>(cohort_.AwaitGo({status.message(), session_, {}}));
  if (state_ != SyncState::kBroken) Move(SyncEvent::kFailed);
  Release();
  return Explain(status, session_ != SessionTarget() ? session_.to : target);
}

// An update that does not fit may be one of a stream that was rewritten: what is known of the versions on its way is read anew,
// so that the next try goes by what is there.
Status Receiver::Explain(const Status& why, uint64_t target) {
  constexpr uint64_t kMaxRead = 16;
  if (why.code() == Code::kIo || state_ == SyncState::kBroken) return why;
  const Status held = stream_.ProveHeld(version_, held_state_);
  if (held.code() == Code::kRefused) return held;
  const uint64_t last = std::max(version_, target);
  const uint64_t first = std::max(std::min(version_, target), last - std::min(last, kMaxRead));
  for (uint64_t version = first; version <= last; ++version) static_cast<void>(stream_.RecordAnew(version));
  return why;
}

void Receiver::Abort() {
  if (state_ != SyncState::kPrepared) return;
  static_cast<void>(cohort_.AwaitGo({"gave the update up", session_, {}}));
  Move(SyncEvent::kAborted);
  Release();
}

Status Receiver::Sync(uint64_t target) {
  while (version_ != target) {
    XORBIT_RETURN_IF_ERROR(Prepare(target));
    const Status applied = Apply();
    Release();
    XORBIT_RETURN_IF_ERROR(applied);
  }
  return {};
}

void Receiver::AddCallback(const std::string& callback) {
  if (std::ranges::find(callbacks_, callback) == callbacks_.end()) callbacks_.push_back(callback);
}

void Receiver::SetUpdateOptions(bool release_state, bool validates_inner_hashes) {
  options_.release_state = release_state;
  options_.masks.validates_inner_hashes = validates_inner_hashes;
  if (release_state) kept_.reset();
}

void Receiver::Release() {
  if (state_ == SyncState::kPrepared) return;
  prepared_.reset();
  staged_.reset();
  if (options_.release_state) kept_.reset();
}

void Receiver::Move(SyncEvent event) {
  const std::optional<SyncState> next = NextSyncState(state_, event);
  assert(next);
  state_ = next.value_or(SyncState::kBroken);
}

Status Receiver::Break(const Status& why) {
  Move(SyncEvent::kLost);
  return why;
}

}  // namespace xorbit
