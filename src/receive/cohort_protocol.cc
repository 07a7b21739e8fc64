#include "receive/cohort_protocol.h"

#include <algorithm>

namespace xorbit {
namespace {

bool AllYes(const std::vector<Vote>& votes) {
  return std::all_of(votes.begin(), votes.end(), [](Vote vote) { return vote == Vote::kYes; });
}
bool AnyNo(const std::vector<Vote>& votes) {
  return std::any_of(votes.begin(), votes.end(), [](Vote vote) { return vote == Vote::kNo; });
}

Move Follow(Ruling ruling) { return ruling == Ruling::kYes ? Move::kYes : Move::kNo; }

Move Propose(const std::vector<Vote>& votes, bool impatient) {
  if (AllYes(votes)) return Move::kProposeYes;
  return impatient || AnyNo(votes) ? Move::kProposeNo : Move::kWait;
}

}  // namespace

Move JudgeGo(const SessionView& view, bool impatient) {
  if (view.go != Ruling::kNone) return Follow(view.go);
  return Propose(view.prepared, impatient);
}

Move JudgeGate(const SessionView& view, bool impatient) {
  // No commit without this rank's applied vote: the outcome can only be to roll back.
  if (view.outcome != Ruling::kNone) return Move::kNo;
  if (AllYes(view.gated)) return Move::kYes;
  return impatient || AnyNo(view.gated) ? Move::kProposeNo : Move::kWait;
}

Move JudgeOutcome(const SessionView& view, bool impatient) {
  if (view.outcome != Ruling::kNone) return Follow(view.outcome);
  return Propose(view.applied, impatient);
}

Move JudgeLeftover(const SessionView& view) {
  if (view.go == Ruling::kNo) return Move::kNo;
  if (view.go == Ruling::kNone) return Move::kProposeNo;
  return view.outcome == Ruling::kNone ? Move::kProposeNo : Follow(view.outcome);
}

}  // namespace xorbit
