// The cohort's protocol, searched exhaustively: every order of steps of N ranks through several sessions, with ranks that are
// killed at any step and start again, that fail at any step, wait too long or not at all, and read behind what is written. The
// decisions are those of cohort_protocol.cc; the model adds what surrounds them.
#include <gtest/gtest.h>

#include <array>
#include <cstdio>
#include <cstring>
#include <string>
#include <unordered_set>
#include <vector>

#include "base/testing/seed.h"
#include "receive/cohort_protocol.h"

namespace xorbit {
namespace {

constexpr size_t kMaxRanks = 3;
constexpr size_t kMaxSessions = 2;

enum class At : uint8_t {
  kServing,  // between sessions, or preparing; the engine runs
  kAwaitGo,
  kPausing,
  kAwaitGate,
  kApplying,
  kAwaitOutcome,
  kUndoing,
  kDone,  // serving, no session is left
  kDead,
  kJoining,  // a new life: the weights are a checkpoint's, the engine does not serve yet
};

struct Rank {
  At at = At::kServing;
  uint8_t session = 0;  // in which it takes part, or will
  uint8_t version = 0;  // which live memory holds
  bool voted_yes = false;
};

struct Session {
  bool opened = false;
  uint8_t from = 0;
  std::array<Vote, kMaxRanks> prepared{};
  std::array<Vote, kMaxRanks> gated{};
  std::array<Vote, kMaxRanks> applied{};
  Ruling go = Ruling::kNone;
  Ruling outcome = Ruling::kNone;
};

// No padding: states are compared as bytes.
struct State {
  std::array<Rank, kMaxRanks> ranks{};
  std::array<Session, kMaxSessions> sessions{};
  uint8_t kills_left = 0;
};
static_assert(sizeof(State) == kMaxRanks * 4 + kMaxSessions * (4 + 3 * kMaxRanks) + 1);

std::string KeyOf(const State& state) { return {reinterpret_cast<const char*>(&state), sizeof(state)}; }

class Model {
 public:
  Model(size_t rank_count, size_t session_count, uint8_t kills) : rank_count_(rank_count), session_count_(session_count) {
    State first;
    first.kills_left = kills;
    Visit(first);
  }

  void Search() {
    while (!open_.empty() && !testing::Test::HasFailure()) {
      const State state = open_.back();
      open_.pop_back();
      const uint64_t before = transition_count_;
      for (size_t i = 0; i < rank_count_; ++i) {
        StepRank(state, i);
        Kill(state, i);
      }
      if (transition_count_ == before) CheckEnd(state);
    }
  }
  uint64_t state_count() const { return seen_.size(); }
  uint64_t transition_count() const { return transition_count_; }
  uint64_t committed_ends() const { return committed_ends_; }
  uint64_t rolled_back_ends() const { return rolled_back_ends_; }

 private:
  void Visit(const State& state) {
    ++transition_count_;
    if (!seen_.insert(KeyOf(state)).second) return;
    Check(state);
    open_.push_back(state);
  }

  // What must hold in every state.
  void Check(const State& state) {
    int served = -1;
    for (size_t i = 0; i < rank_count_; ++i) {
      const Rank& rank = state.ranks[i];
      if (!Serves(rank.at)) continue;
      if (served < 0) served = rank.version;
      EXPECT_EQ(served, rank.version) << "two ranks serve different versions";
    }
    for (size_t i = 0; i < rank_count_; ++i) {
      const Rank& rank = state.ranks[i];
      if (rank.at != At::kApplying && rank.at != At::kAwaitOutcome && rank.at != At::kUndoing) continue;
      for (size_t other = 0; other < rank_count_; ++other) {
        EXPECT_EQ(state.sessions[rank.session].gated[other], Vote::kYes) << "live memory changes before all have stopped";
      }
    }
    for (size_t s = 0; s < session_count_; ++s) {
      const Session& session = state.sessions[s];
      if (session.outcome != Ruling::kYes) continue;
      EXPECT_EQ(session.go, Ruling::kYes);
      for (size_t i = 0; i < rank_count_; ++i) EXPECT_EQ(session.applied[i], Vote::kYes) << "a commit without all ranks";
    }
  }

  // A state in which nothing can happen any more: nobody may be left waiting.
  void CheckEnd(const State& state) {
    for (size_t i = 0; i < rank_count_; ++i) {
      const Rank& rank = state.ranks[i];
      EXPECT_TRUE(rank.at == At::kDone || rank.at == At::kDead) << "a rank hangs at " << static_cast<int>(rank.at);
      if (rank.at == At::kDone) {
        EXPECT_EQ(rank.version, Committed(state)) << "a live rank missed a commit";
      }
    }
    for (size_t s = 0; s < session_count_; ++s) {
      if (state.sessions[s].outcome == Ruling::kYes) ++committed_ends_;
      if (state.sessions[s].outcome == Ruling::kNo) ++rolled_back_ends_;
    }
  }

  static bool Serves(At at) { return at == At::kServing || at == At::kAwaitGo || at == At::kPausing || at == At::kDone; }

  uint8_t Committed(const State& state) const {
    uint8_t version = 0;
    for (size_t s = 0; s < session_count_; ++s) {
      if (state.sessions[s].outcome == Ruling::kYes) version = static_cast<uint8_t>(state.sessions[s].from + 1);
    }
    return version;
  }

  void Kill(const State& state, size_t i) {
    if (state.ranks[i].at == At::kDead || state.kills_left == 0) return;
    State next = state;
    next.ranks[i] = {.at = At::kDead};
    --next.kills_left;
    Visit(next);
  }

  // What rank i may have read: all, or nothing of the rulings, or nothing of the others' votes.
  std::vector<SessionView> ViewsOf(const Session& session, size_t i) const {
    std::vector<SessionView> views;
    for (int hidden = 0; hidden < 4; ++hidden) {
      SessionView view;
      const auto read = [&](const std::array<Vote, kMaxRanks>& votes) {
        std::vector<Vote> seen(votes.begin(), votes.begin() + static_cast<ptrdiff_t>(rank_count_));
        for (size_t other = 0; other < rank_count_; ++other) {
          if ((hidden & 1) != 0 && other != i) seen[other] = Vote::kMissing;
        }
        return seen;
      };
      view.prepared = read(session.prepared);
      view.gated = read(session.gated);
      view.applied = read(session.applied);
      if ((hidden & 2) == 0) {
        view.go = session.go;
        view.outcome = session.outcome;
      }
      views.push_back(view);
    }
    return views;
  }

  static void Create(Ruling* ruling, Move move) {
    if (*ruling == Ruling::kNone) *ruling = move == Move::kProposeYes ? Ruling::kYes : Ruling::kNo;
  }

  // Runs a judge on everything that the rank may see. A proposal is created, whether or not the rank learns of it; the rank
  // looks again, in a later step.
  template <typename Judge, typename Then>
  void Await(const State& state, size_t i, Ruling Session::*proposed, Judge&& judge, Then&& then) {
    const Session& session = state.sessions[state.ranks[i].session];
    for (const SessionView& view : ViewsOf(session, i)) {
      for (const bool impatient : {false, true}) {
        const Move move = judge(view, impatient);
        if (move == Move::kWait) continue;
        State next = state;
        if (move == Move::kProposeYes || move == Move::kProposeNo) {
          if (session.*proposed != Ruling::kNone) continue;  // nothing changes
          Create(&(next.sessions[state.ranks[i].session].*proposed), move);
        } else {
          then(&next.ranks[i], move == Move::kYes);
        }
        Visit(next);
      }
    }
  }

  void Leave(Rank* rank, uint8_t version) const {
    rank->version = version;
    rank->voted_yes = false;
    ++rank->session;
    rank->at = rank->session == session_count_ ? At::kDone : At::kServing;
  }

  void StepRank(const State& state, size_t i) {
    const Rank& rank = state.ranks[i];
    const auto next_with = [&](const auto& change) {
      State next = state;
      change(&next.ranks[i], &next.sessions[std::min<size_t>(rank.session, kMaxSessions - 1)]);
      Visit(next);
    };
    switch (rank.at) {
      case At::kServing:
        StepServing(state, i);
        break;
      case At::kAwaitGo:
        Await(state, i, &Session::go, JudgeGo,
              [&](Rank* r, bool go) { go ? void(r->at = At::kPausing) : Leave(r, r->version); });
        // The store cannot be reached: a rank may leave on its own as long as it has not voted that it applied.
        next_with([&](Rank* r, Session*) { Leave(r, r->version); });
        break;
      case At::kPausing:
        for (const Vote vote : {Vote::kYes, Vote::kNo}) {
          next_with([&](Rank* r, Session* session) {
            session->gated[i] = vote;
            r->at = At::kAwaitGate;
          });
        }
        next_with([&](Rank* r, Session*) { Leave(r, r->version); });
        break;
      case At::kAwaitGate:
        Await(state, i, &Session::outcome, JudgeGate,
              [&](Rank* r, bool all) { all ? void(r->at = At::kApplying) : Leave(r, r->version); });
        next_with([&](Rank* r, Session*) { Leave(r, r->version); });
        break;
      case At::kApplying:
        for (const Vote vote : {Vote::kYes, Vote::kNo}) {
          next_with([&](Rank* r, Session* session) {
            session->applied[i] = vote;
            r->voted_yes = vote == Vote::kYes;
            if (r->voted_yes) ++r->version;
            r->at = At::kAwaitOutcome;
          });
        }
        break;
      case At::kAwaitOutcome:
        Await(state, i, &Session::outcome, JudgeOutcome, [&](Rank* r, bool commit) {
          if (commit || !r->voted_yes) return Leave(r, r->version);
          r->at = At::kUndoing;
        });
        break;
      case At::kUndoing:
        next_with([&](Rank* r, Session*) { Leave(r, static_cast<uint8_t>(r->version - 1)); });
        break;
      case At::kDead:
        next_with([&](Rank* r, Session*) { *r = {.at = At::kJoining}; });
        break;
      case At::kJoining:
        StepJoining(state, i);
        break;
      case At::kDone:
        break;
    }
  }

  // Skips sessions that are over, opens the session if nobody has, and votes.
  void StepServing(const State& state, size_t i) {
    const Rank& rank = state.ranks[i];
    const Session& session = state.sessions[rank.session];
    if (session.go == Ruling::kNo || session.outcome != Ruling::kNone) {
      State next = state;
      Leave(&next.ranks[i], rank.version);
      Visit(next);
    }
    for (const Vote vote : {Vote::kYes, Vote::kNo}) {
      State next = state;
      Session& mine = next.sessions[rank.session];
      if (!mine.opened) mine.from = rank.version;
      mine.opened = true;
      if (vote == Vote::kYes && mine.from != rank.version) continue;
      mine.prepared[i] = vote;
      next.ranks[i].at = At::kAwaitGo;
      Visit(next);
    }
  }

  // Ends what may know an earlier life, one session after the other, then catches up and serves.
  void StepJoining(const State& state, size_t i) {
    State next = state;
    Rank& rank = next.ranks[i];
    if (rank.session == session_count_ || !state.sessions[rank.session].opened) {
      rank.version = Committed(state);
      rank.at = rank.session == session_count_ ? At::kDone : At::kServing;
      return Visit(next);
    }
    Session& session = next.sessions[rank.session];
    const Move move = JudgeLeftover(ViewsOf(session, i).front());
    if (move == Move::kProposeNo) {
      Create(session.go == Ruling::kNone ? &session.go : &session.outcome, move);
    } else {
      ++rank.session;
    }
    Visit(next);
  }

  size_t rank_count_;
  size_t session_count_;
  std::unordered_set<std::string> seen_;
  std::vector<State> open_;
  uint64_t transition_count_ = 0;
  uint64_t committed_ends_ = 0;
  uint64_t rolled_back_ends_ = 0;
};

void SearchAll(size_t rank_count, size_t session_count, uint8_t kills) {
  Model model(rank_count, session_count, kills);
  model.Search();
  std::printf("%zu ranks, %zu sessions, %d kills: %llu states, %llu transitions\n", rank_count, session_count, int{kills},
              static_cast<unsigned long long>(model.state_count()), static_cast<unsigned long long>(model.transition_count()));
  EXPECT_GT(model.committed_ends(), 0);
  EXPECT_GT(model.rolled_back_ends(), 0);
}

TEST(CohortModel, TwoRanksTwoSessionsTwoKills) { SearchAll(2, 2, 2); }
TEST(CohortModel, ThreeRanksOneSessionTwoKills) { SearchAll(3, 1, 2); }
TEST(CohortModel, ThreeRanksTwoSessionsOneKill) {
  if (kIsSanitized) GTEST_SKIP() << "the release build searches it";
  SearchAll(3, 2, 1);
}

}  // namespace
}  // namespace xorbit
