// Engines that are models: they keep sessions, leases and gates as xorbit serve does, without weights, sockets or clocks, so
// that drivers meet them by the thousand.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "drive/driven_update.h"

namespace xorbit {

inline constexpr std::string_view kModelStream = "run";
inline constexpr std::string_view kModelBase = "0123";

// A version's state after the store was put back and published into again so often.
inline std::string ModelState(uint64_t version, int writing = 0) {
  return std::to_string(version) + "/" + std::to_string(writing);
}
inline DrivenTarget ModelTarget(uint64_t version, int writing = 0) { return {version, ModelState(version, writing)}; }

// An engine's side, as far as a driver sees it.
class ModelEngine {
 public:
  uint64_t applied = 0;
  EngineReceipt session;
  std::string base_fingerprint{kModelBase};
  bool is_dead = false;
  bool is_paused = false;  // by /pause_generation
  bool fails_to_prepare = false;
  bool fails_to_apply = false;
  bool fails_to_go_on = false;
  bool is_stuck = false;   // has not gone on when it was let go
  bool is_patient = true;  // else it asks for patience (429) and does nothing
  bool has_leases = true;
  int64_t prepare_ms = 0;
  int64_t lease_ms = 1'000;
  int writing = 0;       // of the store that it reads,
  int held_writing = 0;  // and of that which its weights are of

  ModelEngine() : name_("engine-" + std::to_string(++made_count_)) { Restart(0); }
  void Restart(uint64_t version) {
    const uint64_t ticks = session.identity.start_ticks + 1;
    session = EngineReceipt();
    session.identity = {name_, "host", 7, ticks};
    session.stream_id = kModelStream;
    session.base_fingerprint = base_fingerprint;
    applied = version;
    held_writing = writing;
    is_paused = is_dead = is_stuck = false;
  }
  bool stands_still() const { return is_paused || is_stuck || StandsStill(session.state); }
  bool serves(uint64_t version) const { return !is_dead && !stands_still() && applied == version; }

  // What happens by itself, up to now.
  void Tick(int64_t now_ms) {
    now_ms_ = now_ms;
    if (session.state == SessionState::kPreparing && now_ms_ >= prepared_ms_) {
      session.state = fails_to_prepare ? SessionState::kFailed : SessionState::kPrepared;
    }
    if (has_leases && now_ms_ >= lease_end_ms_) LeaseEnds();
  }

  EngineReply Answer(const DriveOrder& order) {
    EngineReply reply;
    if (is_dead) {
      reply.message = "nobody listens there";
      return reply;
    }
    reply.has_answered = true;
    if (!is_patient) {
      reply.wait_ms = 1'000;
      reply.message = "more requests than this server takes";
      return reply;
    }
    reply.is_accepted = Work(order);
    reply.message = reply.is_accepted ? "done" : "refused";
    session.applied_version = applied;
    session.applied_state = ModelState(applied, held_writing);
    session.paused = stands_still();
    session.lease_left_ms.reset();
    if (has_leases && IsUnderWay(session.state)) session.lease_left_ms = std::max<int64_t>(lease_end_ms_ - now_ms_, 0);
    if (order.step != DriveStep::kContinue && order.step != DriveStep::kFence) reply.receipt = session;
    return reply;
  }

 private:
  void LeaseEnds() {
    if (session.state == SessionState::kPrepared) session.state = SessionState::kAborted;
    if (session.state != SessionState::kApplied) return;
    session.state = SessionState::kResumed;
    is_stuck = fails_to_go_on && !is_paused;
  }
  void RenewLease() { lease_end_ms_ = now_ms_ + lease_ms; }
  bool Move(const DriveOrder& order, SessionState from, SessionState to) {
    if (session.session_id != order.session_id || session.state != from) return false;
    session.state = to;
    return true;
  }
  bool Prepare(const DriveOrder& order) {
    if (session.session_id == order.session_id) {
      RenewLease();
      return session.target_version == order.version;
    }
    const bool is_me = order.identity.start_ticks == session.identity.start_ticks;
    if (IsUnderWay(session.state) || !is_me || order.base_version != applied || order.version == applied) return false;
    session.session_id = order.session_id;
    session.target_version = order.version;
    session.target_state = ModelState(order.version, writing);
    prepared_writing_ = writing;
    session.state = SessionState::kPreparing;
    prepared_ms_ = now_ms_ + prepare_ms;
    RenewLease();
    return true;
  }
  bool Work(const DriveOrder& order) {
    switch (order.step) {
      case DriveStep::kAsk:
        return true;
      case DriveStep::kRecover:
        if (IsUnderWay(session.state)) return false;
        if (applied != order.version) is_stuck = fails_to_go_on && !is_paused;
        applied = order.version;
        held_writing = writing;
        session.session_id = "one call";
        session.state = SessionState::kResumed;
        return !is_stuck;
      case DriveStep::kPrepare:
        return Prepare(order);
      case DriveStep::kPoll:
        if (session.session_id != order.session_id) return false;
        RenewLease();
        return true;
      case DriveStep::kApply:
        if (!Move(order, SessionState::kPrepared, fails_to_apply ? SessionState::kFailed : SessionState::kApplied))
          return false;
        if (fails_to_apply) return false;
        applied = session.target_version;
        held_writing = prepared_writing_;
        RenewLease();
        return true;
      case DriveStep::kResume:
        if (!Move(order, SessionState::kApplied, SessionState::kResumed)) return false;
        is_stuck = fails_to_go_on && !is_paused;
        return !is_stuck;
      case DriveStep::kAbort:
        return Move(order, SessionState::kPrepared, SessionState::kAborted) ||
               Move(order, SessionState::kPreparing, SessionState::kAborted);
      case DriveStep::kContinue:
        if (StandsStill(session.state)) return false;
        is_stuck = (is_paused || is_stuck) && fails_to_go_on;
        is_paused = false;
        return !is_stuck;
      case DriveStep::kFence:
        is_paused = true;
        return true;
      case DriveStep::kWait:
      case DriveStep::kOver:
        break;
    }
    ADD_FAILURE() << "that is no call";
    return false;
  }

  static inline int made_count_ = 0;
  std::string name_;
  int64_t now_ms_ = 0;
  int64_t prepared_ms_ = 0;
  int prepared_writing_ = 0;
  int64_t lease_end_ms_ = 0;
};

inline DriveRules ModelRules(bool is_strict) {
  DriveRules rules;
  rules.is_strict = is_strict;
  rules.silence_ms = 500;
  rules.prepare_ms = 5'000;
  rules.apply_ms = 2'000;
  rules.lease_ms = 1'000;
  return rules;
}

class Fleet {
 public:
  explicit Fleet(size_t count) : engines(count) {}
  std::vector<ModelEngine> engines;
  int64_t now_ms = 1'000;
  int round = 0;

  DrivenUpdate Begin(bool is_strict, uint64_t target, int writing = 0) {
    return Begin(is_strict, target, writing, std::vector<bool>(engines.size(), true));
  }
  DrivenUpdate Begin(bool is_strict, uint64_t target, int writing, const std::vector<bool>& is_required) {
    return {ModelRules(is_strict),
            {std::string(kModelStream), std::string(kModelBase)},
            ModelTarget(target, writing),
            SessionIdOf(is_strict, std::to_string(++round)),
            is_required,
            now_ms};
  }
  // One engine's turn; false if it has nothing more to do.
  bool Turn(DrivenUpdate* update, size_t index, bool loses_reply = false) {
    const DriveOrder order = update->Next(index, now_ms);
    if (order.step == DriveStep::kOver) return false;
    if (order.step == DriveStep::kWait) return true;
    engines[index].Tick(now_ms);
    EngineReply reply = engines[index].Answer(order);
    if (loses_reply) {
      reply = EngineReply();
      reply.message = "no answer";
    }
    update->NoteReply(index, order.step, reply, now_ms);
    return true;
  }
  void RunToEnd(DrivenUpdate* update) {
    for (bool more = true; more; now_ms += 10) {
      more = false;
      for (size_t i = 0; i < engines.size(); ++i) more |= Turn(update, i);
      ASSERT_LT(now_ms, 1'000'000) << "it never ends";
    }
  }
};

}  // namespace xorbit
