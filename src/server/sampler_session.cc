#include "server/sampler_session.h"

#include <algorithm>

#include "base/text.h"

namespace xorbit {
namespace {

constexpr std::chrono::seconds kAbortPatience{10};

}  // namespace

Result<std::unique_ptr<SamplerSession>> SamplerSession::Make(Stream& stream, GatedSampler& sampler, const Backend& backend,
                                                             const SessionOptions& options) {
  XORBIT_ASSIGN_OR_RETURN(const uint64_t newest, stream.Newest());
  return std::unique_ptr<SamplerSession>(new SamplerSession(stream, sampler, backend, options, newest));  // tidy-allow: private
}

SamplerSession::SamplerSession(Stream& stream, GatedSampler& sampler, const Backend& backend, const SessionOptions& options,
                               uint64_t newest_at_start)
    : stream_(stream),
      sampler_(sampler),
      backend_(backend),
      options_(options),
      identity_(ThisSampler(options.engine_id)),
      newest_at_start_(newest_at_start) {
  receipt_.applied_version = sampler.receiver().version();
  held_state_ = sampler.receiver().held_state();
  was_current_ = receipt_.applied_version >= newest_at_start_;
  if (!options.follows) return;
  FollowerOptions following;
  following.may_update = [this]() -> Status {  // over known damage it would carry it along
    const std::lock_guard lock(mutex_);
    return damage_.empty() ? Status() : RefusedError(damage_);
  };
  following.note_update = [this](const SyncReport& report, bool is_applied) { counters_.NoteUpdate(report, is_applied); };
  follower_ = std::make_unique<Follower>(stream, sampler.receiver(), following);
}

Status SamplerSession::CheckWholeLocked() const {
  if (receipt_.state != SessionState::kPoisoned) return {};
  return RefusedError("poisoned: " + receipt_.result + "; start this sampler again");
}

Status SamplerSession::CheckOverLocked() const {
  XORBIT_RETURN_IF_ERROR(CheckWholeLocked());
  if (!IsUnderWay(receipt_.state)) return {};
  return RefusedError("session " + Quoted(receipt_.session_id) + " is " + std::string(NameOf(receipt_.state)) +
                      ": abort or resume it first");
}

// Opens a session, in preparing.
Status SamplerSession::BeginLocked(const std::string& session_id, const VersionRecord& target, const UpdateChoices& choices) {
  if (follower_ != nullptr)
    return RefusedError("this sampler follows the stream by itself; start it without --follow to drive it");
  XORBIT_RETURN_IF_ERROR(CheckWholeLocked());
  if (!damage_.empty()) return RefusedError(damage_);
  XORBIT_RETURN_IF_ERROR(CheckOverLocked());
  const uint64_t applied = receipt_.applied_version;
  receipt_ = SessionReceipt();
  receipt_.state = SessionState::kPreparing;
  receipt_.session_id = session_id;
  receipt_.base_version = applied;
  receipt_.applied_version = applied;
  receipt_.target_version = target.version;
  receipt_.target_state = target.target;
  if (options_.engine != nullptr) options_.engine->NameSync(session_id == kOneCallId ? std::string() : session_id);
  abort_is_wanted_ = false;
  choices_ = choices;
  lease_ = std::chrono::milliseconds(0);
  RenewLeaseLocked();
  return {};
}

Status SamplerSession::CheckSessionLocked(const std::string& session_id, SessionState wanted) const {
  if (receipt_.session_id != session_id || session_id.empty()) {
    return RefusedError("there is no session " + Quoted(session_id) + " here");
  }
  if (receipt_.state == wanted) return {};
  const std::string why = receipt_.result.empty() ? std::string() : ": " + receipt_.result;
  return RefusedError("session " + Quoted(session_id) + " is " + std::string(NameOf(receipt_.state)) + ", not " +
                      std::string(NameOf(wanted)) + why);
}

Result<SessionReceipt> SamplerSession::Prepare(const SessionOrder& order) {
  if (order.session_id.empty() || order.session_id == kOneCallId) return UsageError("a session needs a session_id");
  XORBIT_RETURN_IF_ERROR(stream_.RecordAnew(order.target_version).status());
  XORBIT_RETURN_IF_ERROR(CheckHeld());
  XORBIT_ASSIGN_OR_RETURN(const VersionRecord target, stream_.CommittedRecord(order.target_version));
  const std::lock_guard lock(mutex_);
  if (receipt_.session_id == order.session_id) {
    if (receipt_.target_version == order.target_version) {
      RenewLeaseLocked();
      return ReceiptLocked();
    }
    return RefusedError("session " + Quoted(order.session_id) + " is about version " + std::to_string(receipt_.target_version));
  }
  const uint64_t applied = receipt_.applied_version;
  if (follower_ == nullptr && order.base_version.value_or(applied) != applied) {
    return RefusedError("base_version is " + std::to_string(*order.base_version) + ", but version " + std::to_string(applied) +
                        " is applied");
  }
  if (follower_ == nullptr && order.target_version == applied) {
    return RefusedError("version " + std::to_string(applied) + " is applied already");
  }
  XORBIT_RETURN_IF_ERROR(BeginLocked(order.session_id, target, order.choices));
  lease_ = order.lease;
  RenewLeaseLocked();
  prepare_is_wanted_ = true;
  changed_.notify_all();
  return ReceiptLocked();
}

Result<SessionReceipt> SamplerSession::StatusOf(const std::string& session_id) {
  const std::lock_guard lock(mutex_);
  XORBIT_RETURN_IF_ERROR(CheckSessionLocked(session_id, receipt_.state));
  RenewLeaseLocked();
  return ReceiptLocked();
}

Result<SessionReceipt> SamplerSession::Abort(const std::string& session_id) {
  std::unique_lock lock(mutex_);
  if (receipt_.state == SessionState::kPreparing) {
    XORBIT_RETURN_IF_ERROR(CheckSessionLocked(session_id, SessionState::kPreparing));
    abort_is_wanted_ = true;
    const bool ended = changed_.wait_for(
        lock, kAbortPatience, [&] { return receipt_.session_id != session_id || receipt_.state != SessionState::kPreparing; });
    if (!ended) return RefusedError("session " + Quoted(session_id) + " is still fetching, and will be aborted after that");
    XORBIT_RETURN_IF_ERROR(CheckSessionLocked(session_id, SessionState::kAborted));
    return ReceiptLocked();
  }
  XORBIT_RETURN_IF_ERROR(CheckSessionLocked(session_id, SessionState::kPrepared));
  sampler_.receiver().Abort();
  receipt_.state = SessionState::kAborted;
  return ReceiptLocked();
}

Result<SessionReceipt> SamplerSession::Clear() {
  std::unique_lock lock(mutex_);
  ReleaseLocked(lock);
  XORBIT_RETURN_IF_ERROR(CheckOverLocked());
  if (follower_ == nullptr) sampler_.receiver().SetUpdateOptions(/*release_state=*/true, /*validates_inner_hashes=*/true);
  const uint64_t applied = receipt_.applied_version;
  receipt_ = SessionReceipt();
  receipt_.applied_version = applied;
  return ReceiptLocked();
}

// While it prepares or applies it does not end, and what it is given after that is a whole lease.
std::optional<uint64_t> SamplerSession::LeaseLeftMsLocked() const {
  if (lease_.count() == 0 || !IsUnderWay(receipt_.state)) return std::nullopt;
  if (lease_end_ == Deadline::max()) return lease_.count();
  const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(lease_end_ - std::chrono::steady_clock::now());
  return std::max<int64_t>(left.count(), 0);
}

SessionReceipt SamplerSession::ReceiptLocked() const {
  SessionReceipt receipt = receipt_;
  receipt.damage = damage_;
  receipt.lease_left_ms = LeaseLeftMsLocked();
  const Held held = HeldLocked();
  receipt.applied_version = held.version;
  receipt.applied_state = held.state;
  return receipt;
}

SessionReceipt SamplerSession::receipt() const {
  const std::lock_guard lock(mutex_);
  return ReceiptLocked();
}

}  // namespace xorbit
