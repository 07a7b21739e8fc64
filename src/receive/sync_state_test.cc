// Every state with every event, against the table as the page draws it, and what must hold of the graph as a whole.
#include "receive/sync_state.h"

#include <gtest/gtest.h>

#include <functional>
#include <map>
#include <set>
#include <string>
#include <vector>

namespace xorbit {
namespace {

std::vector<SyncState> AllStates() {
  std::vector<SyncState> states;
  for (uint32_t i = 0; i < kSyncStateCount; ++i) states.push_back(static_cast<SyncState>(i));
  return states;
}
std::vector<SyncEvent> AllEvents() {
  std::vector<SyncEvent> events;
  for (uint32_t i = 0; i < kSyncEventCount; ++i) events.push_back(static_cast<SyncEvent>(i));
  return events;
}

// What can be reached in any number of steps without passing through a state in `barred`, `from` itself not counted.
std::set<SyncState> Reachable(SyncState from, const std::set<SyncState>& barred = {}) {
  std::set<SyncState> reached;
  const std::function<void(SyncState)> visit = [&](SyncState state) {
    for (const SyncEvent event : AllEvents()) {
      const auto next = NextSyncState(state, event);
      if (next && !barred.contains(*next) && reached.insert(*next).second) visit(*next);
    }
  };
  visit(from);
  return reached;
}

// One row a state, one column an event, as in docs/design/receiving.md: I P R G A D U n o B, '.' where it cannot happen.
TEST(SyncState, EveryPairIsAsThePageSays) {
  const std::string letters = "IPRGADUnoB";
  const std::map<char, std::string> table = {
      // prepare staged failed aborted go allgated applied refreshfailed commit rollback undone resumed lost
      {'I', "P...........B"}, {'P', ".RI.........B"}, {'R', "...IG.......B"}, {'G', "..o..A...o..."}, {'A', "..o...DU....B"},
      {'D', "........nU..B"}, {'U', "..........o.B"}, {'n', "...........IB"}, {'o', "...........IB"}, {'B', "............."},
  };
  for (const SyncState state : AllStates()) {
    const std::string& row = table.at(letters[static_cast<size_t>(state)]);
    ASSERT_EQ(row.size(), kSyncEventCount);
    for (const SyncEvent event : AllEvents()) {
      const char expected = row[static_cast<size_t>(event)];
      const auto next = NextSyncState(state, event);
      EXPECT_EQ(next ? letters[static_cast<size_t>(*next)] : '.', expected) << NameOf(state) << ", " << NameOf(event);
    }
  }
}

TEST(SyncState, EveryStateReachesAnEnd) {
  for (const SyncState state : AllStates()) {
    if (state == SyncState::kBroken) continue;
    const std::set<SyncState> reached = Reachable(state);
    EXPECT_TRUE(reached.contains(SyncState::kIdle)) << NameOf(state);
    EXPECT_TRUE(reached.contains(SyncState::kBroken)) << NameOf(state);
  }
  EXPECT_TRUE(Reachable(SyncState::kBroken).empty());
}

// No circle of steps avoids Idle: a receiver that keeps moving ends one update before the next.
TEST(SyncState, NoCircleAvoidsIdle) {
  for (const SyncState state : AllStates()) {
    if (state == SyncState::kIdle) continue;
    EXPECT_FALSE(Reachable(state, {SyncState::kIdle}).contains(state)) << NameOf(state);
  }
}

TEST(SyncState, LiveMemoryChangesOnlyBetweenGateAndResume) {
  for (const SyncState state : AllStates()) {
    EXPECT_FALSE(TouchesLive(state) && Serves(state)) << NameOf(state);
    for (const SyncEvent event : AllEvents()) {
      const auto next = NextSyncState(state, event);
      if (!next) continue;
      if (TouchesLive(*next)) {
        EXPECT_FALSE(Serves(state)) << NameOf(state) << ", " << NameOf(event);
      }
      if (TouchesLive(state)) {
        EXPECT_FALSE(Serves(*next)) << NameOf(state) << ", " << NameOf(event);
      }
    }
  }
}

TEST(SyncState, AppliedEndsByCommitOrUndo) {
  const std::set<SyncState> reached = Reachable(SyncState::kApplied, {SyncState::kResumingNew, SyncState::kUndoing});
  EXPECT_EQ(reached, std::set<SyncState>{SyncState::kBroken});
  // The new version is served after a commit alone.
  for (const SyncState state : AllStates()) {
    for (const SyncEvent event : AllEvents()) {
      if (NextSyncState(state, event) != SyncState::kResumingNew) continue;
      EXPECT_EQ(state, SyncState::kApplied);
      EXPECT_EQ(event, SyncEvent::kCommit);
    }
  }
}

}  // namespace
}  // namespace xorbit
