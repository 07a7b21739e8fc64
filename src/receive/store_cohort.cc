#include "receive/store_cohort.h"

#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <functional>
#include <random>
#include <thread>

#include "base/text.h"
#include "store/checked_text.h"

namespace xorbit {
namespace {

using Clock = std::chrono::steady_clock;

std::string Digits(uint64_t number, size_t width) {
  const std::string text = std::to_string(number);
  return std::string(width - std::min(width, text.size()), '0') + text;
}

// One step of a session: a vote to cast, and what to look at until a ruling is there.
struct Round {
  std::string vote_file;
  std::string vote;
  std::string ruling_file;
  std::chrono::milliseconds patience;
  std::function<Result<Move>(bool impatient)> look;
};

class StoreCohort final : public CohortMember {
 public:
  StoreCohort(ObjectStore& store, CohortOptions options) : store_(store), options_(std::move(options)) {
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
  std::string Key(uint64_t session, const std::string& file) const {
    return options_.prefix + "/s" + Digits(session, 6) + "/" + file;
  }
  static std::string FileOf(const std::string& step, uint32_t rank) { return step + "-" + Digits(rank, 5) + ".json"; }

  Result<std::string> Read(uint64_t session, const std::string& file);
  Status ReadRuling(uint64_t session, const std::string& file, Ruling* ruling);
  Status ReadSteps(const std::string& step, std::vector<Vote>* votes);
  Status ReadPrepared();
  Result<Move> LookForGo(bool impatient);
  Result<bool> Run(const Round& round);
  Result<Move> Step(const Round& round, bool impatient, bool* has_voted);
  Status Propose(uint64_t session, const std::string& ruling_file, Move move);
  Result<bool> EndLeftover(uint64_t session);
  Status SkipEnded();
  Result<std::vector<uint64_t>> Sessions();
  void RemoveOld();
  void Begin();
  void Leave() { ++session_; }

  ObjectStore& store_;
  CohortOptions options_;
  std::string member_;
  uint64_t session_ = 0;  // the next to take part in, or the one under way
  SessionTarget target_;
  SessionView view_;
  std::vector<std::optional<PreparedReceipt>> receipts_;  // by rank
  std::optional<uint64_t> last_committed_;                // a session
  std::optional<uint64_t> removed_before_;
  std::string reason_;
};

// --- reading ---

Result<std::string> StoreCohort::Read(uint64_t session, const std::string& file) {
  return GetText(store_, Key(session, file), kMaxCohortRecordBytes);
}

// Leaves `ruling` as it is while there is none.
Status StoreCohort::ReadRuling(uint64_t session, const std::string& file, Ruling* ruling) {
  if (*ruling != Ruling::kNone) return {};
  const Result<std::string> text = Read(session, file);
  if (!text.ok()) return text.status().code() == Code::kNotFound ? Status() : text.status();
  XORBIT_ASSIGN_OR_RETURN(const RulingRecord record, ParseRuling(*text));
  *ruling = record.yes ? Ruling::kYes : Ruling::kNo;
  if (!record.yes) reason_ = record.reason;
  return {};
}

Status StoreCohort::ReadSteps(const std::string& step, std::vector<Vote>* votes) {
  for (uint32_t rank = 0; rank < options_.rank_count; ++rank) {
    if ((*votes)[rank] != Vote::kMissing) continue;
    const Result<std::string> text = Read(session_, FileOf(step, rank));
    if (!text.ok() && text.status().code() == Code::kNotFound) {
      reason_ = "rank " + std::to_string(rank) + " has not " + step + " in time";
      continue;
    }
    if (!text.ok()) return text.status();
    XORBIT_ASSIGN_OR_RETURN(const StepReceipt receipt, ParseStepReceipt(*text));
    (*votes)[rank] = receipt.vote();
    if (receipt.vote() == Vote::kNo) reason_ = "rank " + std::to_string(rank) + ": " + receipt.reason;
  }
  return {};
}

Status StoreCohort::ReadPrepared() {
  for (uint32_t rank = 0; rank < options_.rank_count; ++rank) {
    if (receipts_[rank]) continue;
    const Result<std::string> text = Read(session_, FileOf("prepared", rank));
    if (!text.ok() && text.status().code() == Code::kNotFound) {
      reason_ = "rank " + std::to_string(rank) + " has not prepared in time";
      continue;
    }
    if (!text.ok()) return text.status();
    XORBIT_ASSIGN_OR_RETURN(receipts_[rank], ParsePreparedReceipt(*text));
    view_.prepared[rank] = receipts_[rank]->vote();
    if (!receipts_[rank]->reason.empty()) reason_ = "rank " + std::to_string(rank) + ": " + receipts_[rank]->reason;
  }
  return {};
}

// --- voting and ruling ---

Status StoreCohort::Propose(uint64_t session, const std::string& ruling_file, Move move) {
  const RulingRecord ruling{move == Move::kProposeYes, move == Move::kProposeYes ? "" : reason_};
  const Status put = PutText(store_, Key(session, ruling_file), WriteRuling(ruling));
  return put.code() == Code::kExists ? Status() : put;  // somebody was faster: what is there counts
}

Result<Move> StoreCohort::Step(const Round& round, bool impatient, bool* has_voted) {
  if (!*has_voted) {
    const Status put = PutText(store_, Key(session_, round.vote_file), round.vote);
    if (put.code() == Code::kExists) {
      return RefusedError("another process speaks for rank " + std::to_string(options_.rank) + " of this cohort; stop one");
    }
    if (!put.ok()) return put;
    *has_voted = true;
  }
  XORBIT_ASSIGN_OR_RETURN(const Move move, round.look(impatient));
  if (move == Move::kProposeYes || move == Move::kProposeNo) {
    XORBIT_RETURN_IF_ERROR(Propose(session_, round.ruling_file, move));
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
    XORBIT_RETURN_IF_ERROR(ReadRuling(session_, "go.json", &go));
    XORBIT_RETURN_IF_ERROR(ReadRuling(session_, "outcome.json", &outcome));
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
  const Result<std::string> text = Read(session_, "target.json");
  if (!text.ok() && text.status().code() == Code::kNotFound) return std::optional<SessionTarget>();
  if (!text.ok()) return text.status();
  XORBIT_ASSIGN_OR_RETURN(const SessionTarget target, ParseTarget(*text, options_.rank_count));
  return std::optional<SessionTarget>(target);
}

Result<SessionTarget> StoreCohort::Open(const SessionTarget& wanted) {
  RemoveOld();
  XORBIT_RETURN_IF_ERROR(SkipEnded());
  Begin();
  const std::string text = WriteTarget(wanted, options_.rank_count);
  const Status put = PutText(store_, Key(session_, "target.json"), text);
  if (put.ok()) return target_ = wanted;
  if (put.code() != Code::kExists) return put;
  XORBIT_ASSIGN_OR_RETURN(const std::string there, Read(session_, "target.json"));
  XORBIT_ASSIGN_OR_RETURN(target_, ParseTarget(there, options_.rank_count));
  return target_;
}

Result<Move> StoreCohort::LookForGo(bool impatient) {
  XORBIT_RETURN_IF_ERROR(ReadRuling(session_, "go.json", &view_.go));
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
  const Round round{FileOf("prepared", options_.rank), WriteReceipt(receipt, member_), "go.json", options_.prepare_patience,
                    [this](bool impatient) { return LookForGo(impatient); }};
  const Result<bool> go = Run(round);
  if (!go.ok() || !*go) Leave();
  return go;
}

Result<bool> StoreCohort::AwaitGate(const std::string& failure) {
  const auto look = [this](bool impatient) -> Result<Move> {
    XORBIT_RETURN_IF_ERROR(ReadRuling(session_, "outcome.json", &view_.outcome));
    if (view_.outcome == Ruling::kNone) XORBIT_RETURN_IF_ERROR(ReadSteps("gated", &view_.gated));
    return JudgeGate(view_, impatient);
  };
  const Result<bool> all_gated = Run({FileOf("gated", options_.rank), WriteReceipt(StepReceipt{failure, {}}, member_),
                                      "outcome.json", options_.pause_patience, look});
  if (!all_gated.ok() || !*all_gated) Leave();
  return all_gated;
}

Result<bool> StoreCohort::AwaitOutcome(const std::string& failure, const StateDigest& state) {
  const auto look = [this](bool impatient) -> Result<Move> {
    XORBIT_RETURN_IF_ERROR(ReadRuling(session_, "outcome.json", &view_.outcome));
    if (view_.outcome == Ruling::kNone) XORBIT_RETURN_IF_ERROR(ReadSteps("applied", &view_.applied));
    return JudgeOutcome(view_, impatient);
  };
  const Result<bool> commit = Run({FileOf("applied", options_.rank), WriteReceipt(StepReceipt{failure, state}, member_),
                                   "outcome.json", options_.pause_patience, look});
  if (commit.ok() && *commit) last_committed_ = session_;
  Leave();
  return commit;
}

// --- between sessions ---

Result<std::vector<uint64_t>> StoreCohort::Sessions() {
  const std::string begin = options_.prefix + "/s";
  XORBIT_ASSIGN_OR_RETURN(const std::vector<ObjectInfo> objects, store_.List(begin));
  std::vector<uint64_t> sessions;
  for (const ObjectInfo& object : objects) {
    uint64_t session = 0;
    const char* const end = object.key.data() + object.key.size();
    const auto parsed = std::from_chars(object.key.data() + begin.size(), end, session);
    if (parsed.ec != std::errc() || parsed.ptr == end || *parsed.ptr != '/') continue;
    if (sessions.empty() || sessions.back() != session) sessions.push_back(session);
  }
  std::sort(sessions.begin(), sessions.end());
  return sessions;
}

// Once a session has committed, every rank has left those before it. Best effort: what stays is removed the next time.
void StoreCohort::RemoveOld() {
  if (options_.rank != 0 || !last_committed_ || removed_before_ == last_committed_) return;
  const Result<std::vector<uint64_t>> sessions = Sessions();
  if (!sessions.ok()) return;
  for (const uint64_t session : *sessions) {
    if (session >= *last_committed_) break;
    const auto objects = store_.List(Key(session, ""));
    if (!objects.ok()) return;
    for (const ObjectInfo& object : *objects) {
      if (!store_.Remove(object.key).ok()) return;
    }
  }
  removed_before_ = last_committed_;
}

// True if the session was committed.
Result<bool> StoreCohort::EndLeftover(uint64_t session) {
  reason_ = "rank " + std::to_string(options_.rank) + " started again";
  SessionView view;
  while (true) {
    XORBIT_RETURN_IF_ERROR(ReadRuling(session, "go.json", &view.go));
    XORBIT_RETURN_IF_ERROR(ReadRuling(session, "outcome.json", &view.outcome));
    const Move move = JudgeLeftover(view);
    if (move == Move::kYes || move == Move::kNo) return move == Move::kYes;
    XORBIT_RETURN_IF_ERROR(Propose(session, view.go == Ruling::kNone ? "go.json" : "outcome.json", move));
  }
}

Result<std::optional<CohortStanding>> StoreCohort::Join() {
  XORBIT_ASSIGN_OR_RETURN(const std::vector<uint64_t> sessions, Sessions());
  for (const uint64_t session : sessions) {
    XORBIT_ASSIGN_OR_RETURN(const bool committed, EndLeftover(session));
    if (committed) last_committed_ = session;
    session_ = session + 1;
  }
  if (!last_committed_) return std::optional<CohortStanding>();
  XORBIT_ASSIGN_OR_RETURN(const std::string target_text, Read(*last_committed_, "target.json"));
  XORBIT_ASSIGN_OR_RETURN(const SessionTarget target, ParseTarget(target_text, options_.rank_count));
  XORBIT_ASSIGN_OR_RETURN(const std::string text, Read(*last_committed_, FileOf("applied", options_.rank)));
  XORBIT_ASSIGN_OR_RETURN(const StepReceipt applied, ParseStepReceipt(text));
  return std::optional<CohortStanding>({target.to, applied.state});
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
