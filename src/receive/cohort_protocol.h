// How the ranks of a cohort change version together: the decisions, as pure functions of what a rank has read. The same
// functions run in store_cohort.cc and in the exhaustive search of cohort_model_test.cc. docs/design/receiving.md says why.
//
//   prepared-R (votes)  ->  go (ruling)  ->  gated-R (votes)  ->  applied-R (votes)  ->  outcome (ruling)
//
// Votes and rulings are create-only objects: whoever creates a ruling first rules, and everybody follows what is there. A vote
// is cast by its rank alone, once. So whatever a rank has read stays true, and a view that is behind is only a slower rank.
#pragma once

#include <cstdint>
#include <vector>

namespace xorbit {

enum class Vote : uint8_t { kMissing, kYes, kNo };
enum class Ruling : uint8_t { kNone, kYes, kNo };

// What a rank has read of a session. Votes are by rank.
struct SessionView {
  std::vector<Vote> prepared;
  std::vector<Vote> gated;
  std::vector<Vote> applied;
  Ruling go = Ruling::kNone;       // yes: stop serving and apply
  Ruling outcome = Ruling::kNone;  // yes: commit, no: roll back
};

// What a rank does next. A proposal is a ruling to create; what is there afterwards counts.
enum class Move : uint8_t {
  kWait,
  kProposeYes,
  kProposeNo,
  kYes,
  kNo,
};

// After its prepared vote: may live memory change? kYes: stop the engine. `impatient`: this rank waits no longer.
Move JudgeGo(const SessionView& view, bool impatient);

// After its gated vote. kYes: no rank serves, apply. A proposal is of the outcome. kNo: resume as before.
Move JudgeGate(const SessionView& view, bool impatient);

// After its applied vote. kYes: resume on the new version. kNo: undo, and resume as before.
//
// A rank that has not cast a yes here may go back to the old version whenever it likes, for no commit can come about without
// it. One that has must not serve again before it knows the outcome.
Move JudgeOutcome(const SessionView& view, bool impatient);

// A session in which an earlier life of this rank may have voted: end it. Proposals are of the go while that is not ruled, else
// of the outcome. kYes: it was committed.
Move JudgeLeftover(const SessionView& view);

}  // namespace xorbit
