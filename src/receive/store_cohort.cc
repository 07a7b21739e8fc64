#include "receive/store_cohort.h"

#include <unistd.h>

#include <functional>
#include <random>
#include <thread>

#include "receive/session_folder.h"

namespace xorbit {
namespace {

using Clock = std::chrono::steady_clock;

// One step of a session: a vote to cast, and what to look at until a ruling is there.
struct Round {
  std::string_view step;
  std::string vote;
  std::string_view ruling;
  std::chrono::milliseconds patience;
  std::function<Result<Move>(bool impatient)> look;
};

class StoreCohort final : public CohortMember {
 public:
  StoreCohort(ObjectStore& store, CohortOptions options)
      : folder_(store, options.prefix, options.rank_count), options_(std::move(options)) {
    std::random_device random;
    member_ = std::to_string(::getpid()) + "-" + std::to_string(uint64_t{random()} << 32 | random());
  }

  bool partial() const override { return options_.rank_count > 1; }
  const std::string& last_reason() const override { return reason_; }
  Result<std::optional<CohortStanding>> Join() override;
  Result<std::optional<SessionTarget>> Pending() override;
  Result<SessionTarget> Open(const SessionTarget& wanted) override;
  Result<bool> AwaitGo(const PreparedReceipt& receipt) override;
  Result<bool> AwaitGate(const std::string& failure) override;
  Result<bool> AwaitOutcome(const std::string& failure, const StateDigest& state) override;

 private:
  Status ReadRuling(uint64_t session, std::string_view name, Ruling* ruling);
  Status ReadSteps(std::string_view step, std::vector<Vote>* votes);
  Status ReadPrepared();
  Result<Move> LookForGo(bool impatient);
  Result<bool> Run(const Round& round);
  Result<bool> RunStep(std::string_view step, std::vector<Vote>* votes, const StepReceipt& receipt,
                       Move (*judge)(const SessionView& view, bool impatient));
  Result<Move> Step(const Round& round, bool impatient, bool* has_voted);
  Status Propose(uint64_t session, std::string_view ruling, Move move);
  Result<bool> EndLeftover(uint64_t session);
  Status SkipEnded();
  void RemoveOld();
  void Begin();
  void Leave() { ++session_; }

  SessionFolder folder_;
  CohortOptions options_;
  std::string member_;
  uint64_t session_ = 0;  // the next to take part in, or the one under way
  SessionView view_;
  std::vector<std::optional<PreparedReceipt>> receipts_;  // by rank
  std::optional<uint64_t> last_committed_;                // a session
  std::optional<uint64_t> removed_before_;
  std::string reason_;
};

// --- reading ---

// Leaves `ruling` as it is while there is none.
Status StoreCohort::ReadRuling(uint64_t session, std::string_view name, Ruling* ruling) {
  if (*ruling != Ruling::kNone) return {};
  XORBIT_ASSIGN_OR_RETURN(const std::optional<RulingRecord> record, folder_.ReadRuling(session, name));
  if (!record) return {};
  *ruling = record->yes ? Ruling::kYes : Ruling::kNo;
  if (!record->yes) reason_ = record->reason;
  return {};
}

Status StoreCohort::ReadSteps(std::string_view step, std::vector<Vote>* votes) {
  for (uint32_t rank = 0; rank < options_.rank_count; ++rank) {
    if ((*votes)[rank] != Vote::kMissing) continue;
    XORBIT_ASSIGN_OR_RETURN(const std::optional<StepReceipt> receipt, folder_.Step(session_, step, rank));
    if (!receipt) {
      reason_ = "rank " + std::to_string(rank) + " has not " + std::string(step) + " in time";
      continue;
    }
    (*votes)[rank] = receipt->vote();
    if (receipt->vote() == Vote::kNo) reason_ = "rank " + std::to_string(rank) + ": " + receipt->reason;
  }
  return {};
}

Status StoreCohort::ReadPrepared() {
  for (uint32_t rank = 0; rank < options_.rank_count; ++rank) {
    if (receipts_[rank]) continue;
    XORBIT_ASSIGN_OR_RETURN(receipts_[rank], folder_.Prepared(session_, rank));
    if (!receipts_[rank]) {
      reason_ = "rank " + std::to_string(rank) + " has not prepared in time";
      continue;
    }
    view_.prepared[rank] = receipts_[rank]->vote();
    if (!receipts_[rank]->reason.empty()) reason_ = "rank " + std::to_string(rank) + ": " + receipts_[rank]->reason;
  }
  return {};
}

// --- voting and ruling ---

Status StoreCohort::Propose(uint64_t session, std::string_view ruling, Move move) {
  const bool yes = move == Move::kProposeYes;
  return folder_.ProposeRuling(session, ruling, {yes, yes ? "" : reason_});
}

Result<Move> StoreCohort::Step(const Round& round, bool impatient, bool* has_voted) {
  if (!*has_voted) {
    const Status put = folder_.PutVote(session_, round.step, options_.rank, round.vote);
    if (put.code() == Code::kExists) {
      return RefusedError("another process speaks for rank " + std::to_string(options_.rank) + " of this cohort; stop one");
    }
    if (!put.ok()) return put;
    *has_voted = true;
  }
  XORBIT_ASSIGN_OR_RETURN(const Move move, round.look(impatient));
  if (move == Move::kProposeYes || move == Move::kProposeNo) {
    XORBIT_RETURN_IF_ERROR(Propose(session_, round.ruling, move));
  }
  return move;
}

Result<bool> StoreCohort::Run(const Round& round) {
  const Clock::time_point end = Clock::now() + round.patience;
  bool has_voted = false;
  while (true) {
    const Clock::time_point now = Clock::now();
    const Result<Move> move = Step(round, now >= end, &has_voted);
    if (!move.ok() && (move.status().code() == Code::kRefused || now >= end + round.patience)) return move.status();
    if (move.ok() && (*move == Move::kYes || *move == Move::kNo)) return *move == Move::kYes;
    if (!move.ok() || *move == Move::kWait) std::this_thread::sleep_for(options_.poll_interval);
  }
}

// --- a session ---

void StoreCohort::Begin() {
  const std::vector<Vote> missing(options_.rank_count, Vote::kMissing);
  view_ = {missing, missing, missing, Ruling::kNone, Ruling::kNone};
  receipts_.assign(options_.rank_count, std::nullopt);
  reason_.clear();
}

// Passes sessions that ended without this rank: the others did not wait for it.
Status StoreCohort::SkipEnded() {
  while (true) {
    Ruling go = Ruling::kNone;
    Ruling outcome = Ruling::kNone;
    XORBIT_RETURN_IF_ERROR(ReadRuling(session_, kGoRuling, &go));
    XORBIT_RETURN_IF_ERROR(ReadRuling(session_, kOutcomeRuling, &outcome));
    if (outcome == Ruling::kYes) {
      return RefusedError("the cohort has committed a version without this process; another speaks for rank " +
                          std::to_string(options_.rank));
    }
    if (go != Ruling::kNo && outcome == Ruling::kNone) return {};
    Leave();
  }
}

Result<std::optional<SessionTarget>> StoreCohort::Pending() {
  XORBIT_RETURN_IF_ERROR(SkipEnded());
  return folder_.Target(session_);
}

Result<SessionTarget> StoreCohort::Open(const SessionTarget& wanted) {
  RemoveOld();
  XORBIT_RETURN_IF_ERROR(SkipEnded());
  Begin();
  const Status put = folder_.PutTarget(session_, wanted);
  if (put.ok()) return wanted;
  if (put.code() != Code::kExists) return put;
  XORBIT_ASSIGN_OR_RETURN(const std::optional<SessionTarget> there, folder_.Target(session_));
  if (!there) return IoError("the target of session " + std::to_string(session_) + " vanished");
  return *there;
}

Result<Move> StoreCohort::LookForGo(bool impatient) {
  XORBIT_RETURN_IF_ERROR(ReadRuling(session_, kGoRuling, &view_.go));
  if (view_.go == Ruling::kNone) XORBIT_RETURN_IF_ERROR(ReadPrepared());
  Move move = JudgeGo(view_, impatient);
  if (move != Move::kProposeYes) return move;
  std::vector<PreparedReceipt> receipts;
  for (const auto& receipt : receipts_) receipts.push_back(*receipt);
  const Status sums = AddUp(receipts);
  if (sums.ok()) return move;
  reason_ = sums.message();
  return Move::kProposeNo;
}

Result<bool> StoreCohort::AwaitGo(const PreparedReceipt& receipt) {
  const Round round{kPreparedStep, WriteReceipt(receipt, member_), kGoRuling, options_.prepare_patience,
                    [this](bool impatient) { return LookForGo(impatient); }};
  const Result<bool> go = Run(round);
  if (!go.ok() || !*go) Leave();
  return go;
}

// A vote on what was done to the engine, and what all votes come to.
Result<bool> StoreCohort::RunStep(std::string_view step, std::vector<Vote>* votes, const StepReceipt& receipt,
                                  Move (*judge)(const SessionView& view, bool impatient)) {
  const auto look = [&](bool impatient) -> Result<Move> {
    XORBIT_RETURN_IF_ERROR(ReadRuling(session_, kOutcomeRuling, &view_.outcome));
    if (view_.outcome == Ruling::kNone) XORBIT_RETURN_IF_ERROR(ReadSteps(step, votes));
    return judge(view_, impatient);
  };
  return Run({step, WriteReceipt(receipt, member_), kOutcomeRuling, options_.pause_patience, look});
}

Result<bool> StoreCohort::AwaitGate(const std::string& failure) {
  const Result<bool> all_gated = RunStep(kGatedStep, &view_.gated, {failure, {}}, JudgeGate);
  if (!all_gated.ok() || !*all_gated) Leave();
  return all_gated;
}

Result<bool> StoreCohort::AwaitOutcome(const std::string& failure, const StateDigest& state) {
  const Result<bool> commit = RunStep(kAppliedStep, &view_.applied, {failure, state}, JudgeOutcome);
  if (commit.ok() && *commit) last_committed_ = session_;
  Leave();
  return commit;
}

// --- between sessions ---

// Once a session has committed, every rank has left those before it. Best effort: what stays is removed the next time.
void StoreCohort::RemoveOld() {
  if (options_.rank != 0 || !last_committed_ || removed_before_ == last_committed_) return;
  const Result<std::vector<uint64_t>> sessions = folder_.Sessions();
  if (!sessions.ok()) return;
  for (const uint64_t session : *sessions) {
    if (session >= *last_committed_) break;
    if (!folder_.Remove(session).ok()) return;
  }
  removed_before_ = last_committed_;
}

// True if the session was committed.
Result<bool> StoreCohort::EndLeftover(uint64_t session) {
  reason_ = "rank " + std::to_string(options_.rank) + " started again";
  SessionView view;
  while (true) {
    XORBIT_RETURN_IF_ERROR(ReadRuling(session, kGoRuling, &view.go));
    XORBIT_RETURN_IF_ERROR(ReadRuling(session, kOutcomeRuling, &view.outcome));
    const Move move = JudgeLeftover(view);
    if (move == Move::kYes || move == Move::kNo) return move == Move::kYes;
    XORBIT_RETURN_IF_ERROR(Propose(session, view.go == Ruling::kNone ? kGoRuling : kOutcomeRuling, move));
  }
}

Result<std::optional<CohortStanding>> StoreCohort::Join() {
  XORBIT_ASSIGN_OR_RETURN(const std::vector<uint64_t> sessions, folder_.Sessions());
  for (const uint64_t session : sessions) {
    XORBIT_ASSIGN_OR_RETURN(const bool committed, EndLeftover(session));
    if (committed) last_committed_ = session;
    session_ = session + 1;
  }
  if (!last_committed_) return std::optional<CohortStanding>();
  XORBIT_ASSIGN_OR_RETURN(const auto target, folder_.Target(*last_committed_));
  XORBIT_ASSIGN_OR_RETURN(const auto applied, folder_.Step(*last_committed_, kAppliedStep, options_.rank));
  if (target && applied) return std::optional<CohortStanding>({target->to, applied->state});
  return IoError("what session " + std::to_string(*last_committed_) + " of the cohort committed vanished");
}

}  // namespace

Result<std::unique_ptr<CohortMember>> MakeStoreCohort(ObjectStore& store, CohortOptions options) {
  if (options.rank_count == 0 || options.rank_count > kMaxCohortRanks || options.rank >= options.rank_count) {
    return UsageError("a cohort has 1 to " + std::to_string(kMaxCohortRanks) + " ranks, numbered from 0");
  }
  XORBIT_RETURN_IF_ERROR(CheckObjectKey(options.prefix));
  return std::unique_ptr<CohortMember>(std::make_unique<StoreCohort>(store, std::move(options)));
}

}  // namespace xorbit
