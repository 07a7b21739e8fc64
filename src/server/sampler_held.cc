// Whether the applied version is still what the stream says it is: an operator may have put back an older copy of the store,
// and a trainer published into it again (Stream::CheckHeld).
#include "server/sampler_session.h"

namespace xorbit {

SamplerSession::Held SamplerSession::HeldLocked() const {
  if (follower_ == nullptr) return {receipt_.applied_version, held_state_};
  const FollowerStatus status = follower_->status();
  return {status.version, status.held_state};
}

std::string SamplerSession::RewrittenLocked() const {
  return follower_ == nullptr ? rewritten_ : follower_->status().rewritten;
}

// What cannot be known now leaves things as they are.
Status SamplerSession::NoteHeld(const Held& held, const Status& status) {
  const std::lock_guard lock(mutex_);
  const bool is_known = status.ok() || status.code() == Code::kRefused;
  if (is_known && follower_ == nullptr && held.version == receipt_.applied_version) rewritten_ = status.message();
  return is_known ? status : Status();
}

Status SamplerSession::ProveHeld() {
  Held held;
  {
    const std::lock_guard lock(mutex_);
    if (IsUnderWay(receipt_.state)) return {};
    held = HeldLocked();
  }
  return NoteHeld(held, stream_.ProveHeld(held.version, held.state));
}

Status SamplerSession::CheckHeld() {
  Held held;
  {
    const std::lock_guard lock(mutex_);
    held = HeldLocked();
  }
  return NoteHeld(held, stream_.CheckHeld(held.version, held.state));
}

// Whether what is prepared is still right to apply. Asked with the gate open, so it may read; a store that cannot be read now
// takes nothing from what was proven.
Status SamplerSession::ProvePrepared() {
  {
    const std::lock_guard lock(mutex_);
    if (!damage_.empty()) return RefusedError(damage_);
  }
  const uint64_t target = sampler_.receiver().report().to;
  const Result<std::optional<VersionRecord>> record = stream_.RecordAnew(target);
  if (!record.ok()) return {};
  if (*record && (*record)->committed() && (*record)->target == sampler_.receiver().target_state()) return {};
  (void)CheckHeld();
  return RefusedError("the stream was rewritten: its version " + std::to_string(target) +
                      " is no more what was prepared here; prepare it anew");
}

// Whoever asks what is new has the stream read anew, so that it costs nothing to look.
Result<uint64_t> SamplerSession::Newest() {
  Result<uint64_t> newest = stream_.Newest();
  (void)CheckHeld();
  return newest;
}

}  // namespace xorbit
