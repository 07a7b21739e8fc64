// Where an update that is driven over HTTP stands, in the reference's words. SyncState (receive/sync_state.h) is the receiver's
// own, finer one; this is what a driver may know and rely on between two calls.
//
//   Idle -> Preparing -> Prepared -> Applying -> Applied -> Resumed
//               |            |          |
//               v            v          v
//            Failed       Aborted    Failed, or Poisoned: load the checkpoint again
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string_view>

namespace xorbit {

enum class SessionState : uint8_t {
  kIdle,
  kPreparing,  // fetching and verifying; the old version is served
  kPrepared,   // everything waits; the old version is served
  kApplying,   // the gate is closed, live memory changes
  kApplied,    // the new version is in and checked; the gate is closed until the driver resumes
  kResumed,    // the new version is served
  kFailed,     // live memory is as it was, and served
  kAborted,    // the same, because the driver wanted it so
  kPoisoned,   // what live memory holds is not known: nothing is served any more
};

// The session of an update in one call; no driver may name its own so.
inline constexpr std::string_view kOneCallId = "one call";

// A session that others have to wait for.
constexpr bool IsUnderWay(SessionState state) {
  return state == SessionState::kPreparing || state == SessionState::kPrepared || state == SessionState::kApplying ||
         state == SessionState::kApplied;
}
// The gate is closed for the session's sake.
constexpr bool StandsStill(SessionState state) {
  return state == SessionState::kApplying || state == SessionState::kApplied || state == SessionState::kPoisoned;
}

inline constexpr std::string_view kSessionStateNames[] = {"IDLE",    "PREPARING", "PREPARED", "APPLYING", "APPLIED",
                                                          "RESUMED", "FAILED",    "ABORTED",  "POISONED"};
constexpr std::string_view NameOf(SessionState state) { return kSessionStateNames[static_cast<uint8_t>(state)]; }
// Nothing: there is no state of this name.
constexpr std::optional<SessionState> SessionStateNamed(std::string_view name) {
  const auto* const found = std::ranges::find(kSessionStateNames, name);
  if (found == std::ranges::end(kSessionStateNames)) return std::nullopt;
  return static_cast<SessionState>(found - kSessionStateNames);
}

}  // namespace xorbit
