// Where a receiver stands between two versions: pure transitions, so that every pair of state and event is tested without
// weights, engines or peers. docs/design/receiving.md has the picture.
//
//   Idle -> Preparing -> Prepared -> Gating -> Applying -> Applied -> ResumingNew -> Idle, at the new version
//     ^          |           |          |          |          |
//     |          v           v          v          |          v
//     +----------+-----------+--- ResumingOld <----+------ Undoing
//
// Live memory changes in Applying and Undoing alone, while the engine is paused. Applied has no way back to serving but the
// cohort's outcome: commit, or undo.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace xorbit {

enum class SyncState : uint8_t {
  kIdle,         // the engine serves a version, nothing is staged
  kPreparing,    // fetching, verifying, staging; the engine serves
  kPrepared,     // everything waits; the engine serves
  kGating,       // the cohort goes: the engine stops, and waits for the other ranks to stop
  kApplying,     // live memory changes
  kApplied,      // live memory holds the new version, checked; the cohort has not decided
  kUndoing,      // live memory changes back
  kResumingNew,  // committed
  kResumingOld,  // live memory is as it was
  kBroken,       // what live memory holds, or whether it may be served, is not known: load a checkpoint and attach again
};
inline constexpr uint32_t kSyncStateCount = 10;

enum class SyncEvent : uint8_t {
  kPrepare,        // a target is wanted
  kStaged,         // fetched, verified, pre-flighted
  kFailed,         // this step failed, and left live memory as it found it
  kAborted,        // the cohort does not go, or this rank gives up
  kGo,             // the cohort goes
  kAllGated,       // no rank serves
  kApplied,        // applied, checked, refreshed
  kRefreshFailed,  // applied, but the engine could not follow
  kCommit,         // the cohort's outcome
  kRollBack,       // the cohort's outcome
  kUndone,
  kResumed,
  kLost,  // live memory or the outcome cannot be known
};
inline constexpr uint32_t kSyncEventCount = 13;

// Nothing if the event cannot happen there: a bug of the caller, or a call at the wrong time.
std::optional<SyncState> NextSyncState(SyncState state, SyncEvent event);

// Whether live memory may be in between two versions.
constexpr bool TouchesLive(SyncState state) { return state == SyncState::kApplying || state == SyncState::kUndoing; }
// Whether the engine serves.
constexpr bool Serves(SyncState state) {
  return state == SyncState::kIdle || state == SyncState::kPreparing || state == SyncState::kPrepared;
}

std::string_view NameOf(SyncState state);
std::string_view NameOf(SyncEvent event);

}  // namespace xorbit
