// Cohorts of threads in a store: all or none, whoever fails, dies, is late or loses replies.
#include "receive/store_cohort.h"

#include <gtest/gtest.h>

#include <mutex>
#include <random>

#include "base/parallel.h"
#include "base/testing/seed.h"
#include "transport/testing/forwarding_store.h"
#include "transport/testing/memory_store.h"

namespace xorbit {
namespace {

using std::chrono::milliseconds;

CohortOptions OptionsOf(uint32_t rank, uint32_t rank_count) {
  CohortOptions options;
  options.rank = rank;
  options.rank_count = rank_count;
  options.prepare_patience = milliseconds(400);
  options.pause_patience = milliseconds(400);
  return options;
}

PreparedReceipt ReceiptOf(const SessionTarget& target, uint64_t mine, uint64_t whole) {
  return {.reason = "", .target = target, .shares = {{"state", {mine, mine}, {whole, whole}}}};
}

// A rank without weights: how far it came in one session.
struct Went {
  Status error;
  bool gone = false;
  bool gated = false;
  bool committed = false;
  bool unknown = false;  // applied, and the outcome could not be known
};

// One session of one rank, which holds `version`. `dies_at`: it stops before this step and never comes back.
Went RunSession(CohortMember& member, uint64_t version, uint64_t mine, uint64_t whole, int dies_at = 9) {
  Went went;
  const Result<SessionTarget> target = member.Open({version, version + 1});
  went.error = target.status();
  if (!target.ok() || dies_at == 0) return went;
  PreparedReceipt receipt = ReceiptOf(*target, mine, whole);
  if (target->from != version) receipt.reason = "holds another version";
  const Result<bool> go = member.AwaitGo(receipt);
  went.error = go.status();
  went.gone = go.ok() && *go;
  if (!went.gone || dies_at == 1) return went;
  const Result<bool> gated = member.AwaitGate("");
  went.error = gated.status();
  went.gated = gated.ok() && *gated;
  if (!went.gated || dies_at == 2) return went;
  const Result<bool> commit = member.AwaitOutcome("", {mine + 1, version + 1});
  went.error = commit.status();
  went.committed = commit.ok() && *commit;
  went.unknown = !commit.ok();
  return went;
}

std::unique_ptr<CohortMember> MemberOf(ObjectStore& store, uint32_t rank, uint32_t rank_count) {
  auto member = MakeStoreCohort(store, OptionsOf(rank, rank_count));
  EXPECT_TRUE(member.ok()) << member.status().message();
  return std::move(member).value();
}

template <typename Body>
void ForRanks(uint32_t rank_count, Body&& body) {
  const Status status = ParallelFor(static_cast<int>(rank_count), rank_count, [&](uint64_t rank) {
    body(static_cast<uint32_t>(rank));
    return Status();
  });
  EXPECT_TRUE(status.ok());
}

TEST(StoreCohort, CommitsManySessionsAndForgetsOldOnes) {
  MemoryStore store;
  constexpr uint32_t rank_count = 4;
  constexpr uint64_t session_count = 12;
  ForRanks(rank_count, [&](uint32_t rank) {
    const auto member = MemberOf(store, rank, rank_count);
    EXPECT_FALSE(member->Join().value().has_value());
    uint64_t version = 0;
    while (version < session_count) version += RunSession(*member, version, rank, 0 + 1 + 2 + 3).committed ? 1 : 0;
  });
  // The last two sessions at most: target, go, outcome and three votes a rank.
  EXPECT_LE(store.object_count(), 2 * (3 + 3 * rank_count));
  for (uint32_t rank = 0; rank < rank_count; ++rank) {
    const auto standing = MemberOf(store, rank, rank_count)->Join();
    ASSERT_TRUE(standing.ok()) << standing.status().message();
    ASSERT_TRUE(standing->has_value());
    EXPECT_EQ((*standing)->version, session_count);
    EXPECT_EQ((*standing)->state, (StateDigest{rank + 1, session_count}));
  }
}

TEST(StoreCohort, TakesNothingElseForASession) {
  MemoryStore store;
  const std::string prefix = OptionsOf(0, 1).prefix + "/";
  for (const char* name : {"s7/target.json", "s18446744073709551615/target.json", "s1000000000000/target.json", "s/x"}) {
    ASSERT_TRUE(store.PutNew(prefix + name, AsBytes("not ours")).ok());
  }
  const auto member = MemberOf(store, 0, 1);
  EXPECT_FALSE(member->Join().value().has_value());
  EXPECT_TRUE(RunSession(*member, 0, 1, 1).committed);
  EXPECT_TRUE(store.Stat(prefix + "s000000/outcome.json").ok());
}

TEST(StoreCohort, RefusesWhatDoesNotAddUp) {
  MemoryStore store;
  ForRanks(3, [&](uint32_t rank) {
    const auto member = MemberOf(store, rank, 3);
    const Went went = RunSession(*member, 0, rank, 4);
    EXPECT_TRUE(went.error.ok()) << went.error.message();
    EXPECT_FALSE(went.gone);
    EXPECT_NE(member->last_reason().find("add up"), std::string::npos) << member->last_reason();
  });
}

TEST(StoreCohort, RefusesASecondProcessOfOneRank) {
  MemoryStore store;
  const auto first = MemberOf(store, 0, 2);
  const auto second = MemberOf(store, 0, 2);
  const SessionTarget target = first->Open({0, 1}).value();
  EXPECT_EQ(second->Open({0, 2}).value(), target);
  EXPECT_FALSE(first->AwaitGo(ReceiptOf(target, 0, 0)).value());  // rank 1 never comes
  EXPECT_NE(first->last_reason().find("rank 1"), std::string::npos) << first->last_reason();
  EXPECT_EQ(second->AwaitGo(ReceiptOf(target, 0, 0)).status().code(), Code::kRefused);
  EXPECT_EQ(MemberOf(store, 1, 3)->Open({0, 1}).value(), (SessionTarget{0, 1}));   // sessions that ended are passed
  EXPECT_EQ(MemberOf(store, 0, 2)->Open({0, 1}).status().code(), Code::kRefused);  // another number of ranks
}

// Every rank at every step, then a new life of the one that died.
TEST(StoreCohort, AllOrNoneWhicheverDiesAtAnyStep) {
  for (uint32_t victim = 0; victim < 3; ++victim) {
    for (int step = 0; step < 3; ++step) {
      SCOPED_TRACE("rank " + std::to_string(victim) + " dies before step " + std::to_string(step));
      MemoryStore store;
      std::vector<std::unique_ptr<CohortMember>> members;
      for (uint32_t rank = 0; rank < 3; ++rank) members.push_back(MemberOf(store, rank, 3));
      ForRanks(3, [&](uint32_t rank) {
        const Went went = RunSession(*members[rank], 0, rank, 3, rank == victim ? step : 9);
        EXPECT_TRUE(went.error.ok()) << went.error.message();
        EXPECT_FALSE(went.committed);
      });
      members[victim] = MemberOf(store, victim, 3);
      const auto standing = members[victim]->Join();
      ASSERT_TRUE(standing.ok()) << standing.status().message();
      EXPECT_FALSE(standing->has_value());
      std::vector<int> committed(3);
      ForRanks(3, [&](uint32_t rank) { committed[rank] = RunSession(*members[rank], 0, rank, 3).committed ? 1 : 0; });
      EXPECT_EQ(committed, std::vector<int>(3, 1));
    }
  }
}

// Replies are lost and calls fail at random. A rank that cannot know the outcome stops; no two others differ.
TEST(StoreCohort, AgreesThroughAnUnreliableStore) {
  uint64_t commits = 0;
  uint64_t rolled_back = 0;
  for (uint64_t round = 0; round < 40; ++round) {
    const uint64_t seed = TestSeed() + round;
    SCOPED_TRACE("XORBIT_TEST_SEED=" + std::to_string(seed));
    std::mutex mutex;
    std::mt19937_64 random(seed);
    const uint64_t trouble = round % 4 == 3 ? 60 : 20;  // of 100 calls
    MemoryStore store;
    store.fault = [&](std::string_view /*call*/, std::string_view /*key*/) {
      const std::lock_guard lock(mutex);
      if (random() % 100 >= trouble) return MemoryStore::Fault::kNone;
      return random() % 2 == 0 ? MemoryStore::Fault::kFails : MemoryStore::Fault::kLostReply;
    };
    std::vector<Went> went(3);
    ForRanks(3, [&](uint32_t rank) {
      const auto member = MemberOf(store, rank, 3);
      went[rank] = RunSession(*member, 0, rank, 3);
    });
    uint64_t committed = 0;
    uint64_t old = 0;
    for (const Went& one : went) {
      committed += one.committed ? 1 : 0;
      old += !one.committed && !one.unknown ? 1 : 0;
    }
    EXPECT_TRUE(committed == 0 || old == 0) << committed << " committed, " << old << " went back";
    (committed > 0 ? commits : rolled_back) += 1;
  }
  EXPECT_GT(commits, 0);
  std::printf("%llu sessions committed, %llu did not\n", static_cast<unsigned long long>(commits),
              static_cast<unsigned long long>(rolled_back));
}

}  // namespace
}  // namespace xorbit
