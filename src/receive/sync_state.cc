#include "receive/sync_state.h"

#include <iterator>

namespace xorbit {
namespace {

struct Transition {
  SyncState from;
  SyncEvent event;
  SyncState to;
};

using enum SyncState;

constexpr Transition kTransitions[] = {
    {kIdle, SyncEvent::kPrepare, kPreparing},
    {kPreparing, SyncEvent::kStaged, kPrepared},
    {kPreparing, SyncEvent::kFailed, kIdle},
    {kPrepared, SyncEvent::kAborted, kIdle},
    {kPrepared, SyncEvent::kGo, kGating},
    {kGating, SyncEvent::kAllGated, kApplying},
    {kGating, SyncEvent::kFailed, kResumingOld},
    {kGating, SyncEvent::kRollBack, kResumingOld},
    {kApplying, SyncEvent::kApplied, kApplied},
    {kApplying, SyncEvent::kFailed, kResumingOld},
    {kApplying, SyncEvent::kRefreshFailed, kUndoing},
    {kApplying, SyncEvent::kLost, kBroken},
    {kApplied, SyncEvent::kCommit, kResumingNew},
    {kApplied, SyncEvent::kRollBack, kUndoing},
    {kApplied, SyncEvent::kLost, kBroken},
    {kUndoing, SyncEvent::kUndone, kResumingOld},
    {kUndoing, SyncEvent::kLost, kBroken},
    {kResumingNew, SyncEvent::kResumed, kIdle},
    {kResumingNew, SyncEvent::kLost, kBroken},
    {kResumingOld, SyncEvent::kResumed, kIdle},
    {kResumingOld, SyncEvent::kLost, kBroken},
    // A scan found other weights than the version's.
    {kIdle, SyncEvent::kLost, kBroken},
    {kPreparing, SyncEvent::kLost, kBroken},
    {kPrepared, SyncEvent::kLost, kBroken},
};

constexpr std::string_view kStateNames[] = {"idle",    "preparing", "prepared",     "gating",       "applying",
                                            "applied", "undoing",   "resuming new", "resuming old", "broken"};
static_assert(std::size(kStateNames) == kSyncStateCount);

constexpr std::string_view kEventNames[] = {"prepare", "staged",         "failed", "aborted",   "go",     "all gated",
                                            "applied", "refresh failed", "commit", "roll back", "undone", "resumed",
                                            "lost"};
static_assert(std::size(kEventNames) == kSyncEventCount);

}  // namespace

std::optional<SyncState> NextSyncState(SyncState state, SyncEvent event) {
  for (const Transition& transition : kTransitions) {
    if (transition.from == state && transition.event == event) return transition.to;
  }
  return std::nullopt;
}

std::string_view NameOf(SyncState state) { return kStateNames[static_cast<size_t>(state)]; }
std::string_view NameOf(SyncEvent event) { return kEventNames[static_cast<size_t>(event)]; }

}  // namespace xorbit
