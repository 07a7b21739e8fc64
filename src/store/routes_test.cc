// Routes, folds and retention on simulated runs: what a receiver fetches and what a publisher writes.
#include "store/routes.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <random>
#include <set>

#include "base/testing/seed.h"
#include "store/fold_schedule.h"
#include "store/retention.h"

namespace xorbit {
namespace {

Edge MakeEdge(uint64_t from, uint64_t to, uint64_t byte_count, std::string id = "t") {
  return {from, to, std::move(id), byte_count, ""};
}

std::vector<uint64_t> StopsOf(const std::vector<Hop>& route, uint64_t from) {
  std::vector<uint64_t> stops = {from};
  for (const Hop& hop : route) {
    EXPECT_EQ(StartOf(hop), stops.back());
    stops.push_back(EndOf(hop));
  }
  return stops;
}

TEST(Routes, TakeTheCheapestWayBothWays) {
  const std::vector<Edge> edges = {MakeEdge(0, 1, 10), MakeEdge(1, 2, 10), MakeEdge(2, 3, 10), MakeEdge(0, 3, 25),
                                   MakeEdge(0, 2, 30)};
  EXPECT_THAT(StopsOf(*CheapestRoute(edges, 0, 3), 0), testing::ElementsAre(0, 3));
  EXPECT_THAT(StopsOf(*CheapestRoute(edges, 3, 0), 3), testing::ElementsAre(3, 0));
  EXPECT_THAT(StopsOf(*CheapestRoute(edges, 0, 2), 0), testing::ElementsAre(0, 1, 2));
  EXPECT_THAT(StopsOf(*CheapestRoute(edges, 0, 2, 1), 0), testing::ElementsAre(0, 2));
  EXPECT_TRUE(CheapestRoute(edges, 1, 1)->empty());
  EXPECT_FALSE(CheapestRoute(edges, 0, 4));
  EXPECT_FALSE(CheapestRoute(edges, 1, 3, 1));
}

TEST(Routes, GoRoundWhenThatIsShorter) {
  const std::vector<Edge> edges = {MakeEdge(0, 1, 1), MakeEdge(0, 4, 3), MakeEdge(1, 2, 1),
                                   MakeEdge(2, 3, 1), MakeEdge(3, 4, 1), MakeEdge(4, 5, 1)};
  EXPECT_THAT(StopsOf(*CheapestRoute(edges, 1, 5), 1), testing::ElementsAre(1, 2, 3, 4, 5));
  EXPECT_THAT(StopsOf(*CheapestRoute(edges, 1, 5, 3), 1), testing::ElementsAre(1, 0, 4, 5));
}

// The definition, by trying all walks of at most `limit` hops.
uint64_t CheapestByTrying(const std::vector<Edge>& edges, uint64_t at, uint64_t to, uint32_t limit) {
  if (at == to) return 0;
  uint64_t best = UINT64_MAX;
  if (limit == 0) return best;
  for (const Edge& edge : edges) {
    if (edge.from != at && edge.to != at) continue;
    const uint64_t rest = CheapestByTrying(edges, edge.from == at ? edge.to : edge.from, to, limit - 1);
    if (rest != UINT64_MAX) best = std::min(best, rest + edge.byte_count);
  }
  return best;
}

TEST(Routes, AgreeWithTryingEverything) {
  std::mt19937_64 random(TestSeed());
  for (int round = 0; round < 300; ++round) {
    std::vector<Edge> edges;
    for (int i = 0; i < 9; ++i) {
      const uint64_t from = random() % 5;
      edges.push_back(MakeEdge(from, from + 1 + random() % (6 - from), 1 + random() % 8, std::to_string(i)));
    }
    for (uint32_t limit = 1; limit <= 5; ++limit) {
      const uint64_t expected = CheapestByTrying(edges, 0, 6, limit);
      const auto route = CheapestRoute(edges, 0, 6, limit);
      ASSERT_EQ(route ? ByteCountOf(*route) : UINT64_MAX, expected);
      if (!route) continue;
      EXPECT_LE(route->size(), limit);
      EXPECT_EQ(StopsOf(*route, 0).back(), 6U);
      std::shuffle(edges.begin(), edges.end(), random);
      EXPECT_EQ(*CheapestRoute(edges, 0, 6, limit), *route);
    }
    const auto route = CheapestRoute(edges, 0, 6);
    EXPECT_EQ(route ? ByteCountOf(*route) : UINT64_MAX, CheapestByTrying(edges, 0, 6, 6));
  }
}

TEST(Routes, KnowHowManyObjectsAreAllowed) {
  const std::pair<uint64_t, uint32_t> limits[] = {{0, 1}, {1, 1}, {2, 2},  {3, 3},   {4, 4},
                                                  {5, 4}, {8, 6}, {16, 8}, {63, 11}, {64, 12}};
  for (const auto& [steps, limit] : limits) EXPECT_EQ(ObjectLimit(steps), limit) << steps;
}

// --- a simulated run ---

// How large the delta between two versions of one run is. Elements change independently with the density of the reference
// workload; of those changed twice, as many as on the real run cancel exactly.
class Run {
 public:
  virtual ~Run() = default;
  virtual uint64_t DeltaBytes(uint64_t step_count) const = 0;
};

class UnionRun final : public Run {
 public:
  uint64_t DeltaBytes(uint64_t step_count) const override {
    constexpr double element_count = 55.6e9;  // 111.25 GB of BF16
    constexpr double density = 0.0017;        // elements a step: 0.085 % of the bytes
    constexpr double cancelled = 0.39;        // of those changed twice: 9,909 of 25,500 on rl-run
    constexpr double bits_per_change = 11;
    const double k = static_cast<double>(step_count);
    const double touched = 1 - std::pow(1 - density, k);
    const double once = k * density * std::pow(1 - density, k - 1);
    const double changed = once + (touched - once) * (1 - cancelled);
    return static_cast<uint64_t>(element_count * changed * bits_per_change / 8) + 4096;
  }
};

// Changes crowd on the same elements: the delta of k steps grows like a power of k. rl-run's 0 -> 4 has 0.646 of the changes of
// its four steps, an exponent of 0.685.
class PowerRun final : public Run {
 public:
  explicit PowerRun(double exponent) : exponent_(exponent) {}
  uint64_t DeltaBytes(uint64_t step_count) const override {
    return static_cast<uint64_t>(1e8 * std::pow(static_cast<double>(step_count), exponent_));
  }

 private:
  const double exponent_;
};

struct Published {
  std::vector<uint64_t> committed;
  std::vector<Edge> edges;
  uint64_t step_bytes = 0;
  uint64_t fold_bytes = 0;
};

// Every version is a step from the one before; `aborted` ones are skipped.
Published Publish(const Run& run, uint64_t version_count, const std::vector<uint64_t>& marks,
                  const std::set<uint64_t>& aborted = {}) {
  Published published;
  published.committed = {0};
  std::vector<uint64_t> ordinal(version_count + 1, 0);
  for (uint64_t version = 1; version <= version_count; ++version) {
    ordinal[version] = ordinal[version - 1] + (aborted.contains(version) ? 0 : 1);
    if (aborted.contains(version)) continue;
    const uint64_t step_bytes = run.DeltaBytes(1);
    published.edges.push_back(MakeEdge(published.committed.back(), version, step_bytes));
    published.committed.push_back(version);
    published.step_bytes += step_bytes;
    const std::vector<PlannedFold> folds = PlanFolds(published.committed, published.edges, marks);
    for (size_t i = 0; i < folds.size(); ++i) {
      const PlannedFold& fold = folds[i];
      EXPECT_EQ(fold.to, version);
      EXPECT_GE(fold.chain.size(), 2U);
      EXPECT_EQ(StopsOf(fold.chain, fold.from).back(), fold.to);
      const uint64_t byte_count = run.DeltaBytes(ordinal[fold.to] - ordinal[fold.from]);
      published.edges.push_back(MakeEdge(fold.from, fold.to, byte_count, "fold"));
      published.fold_bytes += byte_count;
      // A rank that comes back now goes on with what is left.
      EXPECT_EQ(PlanFolds(published.committed, published.edges, marks),
                std::vector<PlannedFold>(folds.begin() + static_cast<ptrdiff_t>(i) + 1, folds.end()));
    }
  }
  return published;
}

struct Worst {
  double bytes = 0;             // times the direct delta
  uint64_t too_many_count = 0;  // pairs without a route of few enough objects
  uint64_t pair_count = 0;
};

// Every pair of versions up to 64 steps apart, the later one being the newest: then the fewest folds are there. A receiver goes
// back over the same edges.
Worst WorstRoutes(const Run& run, const Published& published) {
  Worst worst;
  for (uint64_t to = 1; to <= published.committed.back(); ++to) {
    for (uint64_t k = 1; k <= 64 && k <= to; ++k) {
      std::vector<Edge> near;  // what Stream::Route looks at
      const uint64_t lowest = (to - k) / 12 * 12;
      for (const Edge& edge : published.edges) {
        if (edge.from >= lowest && edge.to <= to) near.push_back(edge);
      }
      const auto route = CheapestRoute(near, to - k, to, ObjectLimit(k));
      ++worst.pair_count;
      if (!route) {
        ++worst.too_many_count;
        continue;
      }
      const double ratio = static_cast<double>(ByteCountOf(*route)) / static_cast<double>(run.DeltaBytes(k));
      worst.bytes = std::max(worst.bytes, ratio);
    }
  }
  return worst;
}

double WriteCost(const Published& published) {
  return static_cast<double>(published.fold_bytes) / static_cast<double>(published.step_bytes);
}

TEST(FoldSchedule, KeepsRoutesShortAndSmallAtTheReferenceDensity) {
  const UnionRun run;
  const Published published = Publish(run, 160, {});
  const Worst worst = WorstRoutes(run, published);
  std::printf("reference density: folds write %.3f x the step bytes; worst route %.2f x the direct delta, %llu pairs\n",
              WriteCost(published), worst.bytes, static_cast<unsigned long long>(worst.pair_count));
  EXPECT_EQ(worst.too_many_count, 0U);
  EXPECT_LE(worst.bytes, 2.0);
  EXPECT_LT(WriteCost(published), 2.0);
}

TEST(FoldSchedule, KeepsRoutesShortAndSmallWhereChangesCrowd) {
  for (const double exponent : {0.95, 0.85, 0.75, 0.685}) {
    const PowerRun run(exponent);
    const Published published = Publish(run, 160, {});
    const Worst worst = WorstRoutes(run, published);
    std::printf("delta of k steps ~ k^%.3f: folds write %.3f x the step bytes; worst route %.2f x the direct delta\n", exponent,
                WriteCost(published), worst.bytes);
    EXPECT_EQ(worst.too_many_count, 0U) << exponent;
    EXPECT_LT(WriteCost(published), 2.0) << exponent;
    EXPECT_LE(worst.bytes, 2.0) << exponent;
  }
}

TEST(FoldSchedule, GoesOnPastAbortedVersions) {
  const UnionRun run;
  std::mt19937_64 random(TestSeed());
  std::set<uint64_t> aborted;
  for (uint64_t version = 1; version <= 100; ++version) {
    if (random() % 5 == 0) aborted.insert(version);
  }
  const Published published = Publish(run, 100, {}, aborted);
  EXPECT_LT(WriteCost(published), 2.0);
  for (const uint64_t from : published.committed) {
    for (const uint64_t to : published.committed) EXPECT_TRUE(CheapestRoute(published.edges, from, to));
  }
}

TEST(FoldSchedule, RefreshesMarksWithinTheirBudget) {
  for (const double exponent : {1.0, 0.685}) {
    const PowerRun run(exponent);
    const Published with = Publish(run, 200, {0});
    const double cost = WriteCost(with) - WriteCost(Publish(run, 200, {}));
    EXPECT_LT(cost, 2.0);
    uint64_t last = 0;
    for (const Edge& edge : with.edges) {
      if (edge.from == 0) last = std::max(last, edge.to);
    }
    EXPECT_GE(last, 100U);  // doubled at least once more
  }
}

// --- retention ---

TEST(Retention, KeepsAWayFromTheBaseAndBetweenNewVersions) {
  const UnionRun run;
  std::mt19937_64 random(TestSeed());
  for (int round = 0; round < 5; ++round) {
    Published published = Publish(run, 150 + random() % 150, {0});
    const uint64_t newest = published.committed.back();
    const std::vector<uint64_t> anchors = {newest / 4, newest / 2};
    RetentionPolicy policy;
    policy.version_count = 1 + random() % 100;
    const RetentionPlan plan = PlanRetention(published.committed, published.edges, anchors, {}, random() % 40, policy);
    EXPECT_THAT(plan.anchors, testing::ElementsAre(newest / 4));
    EXPECT_FALSE(plan.places.empty());
    const std::set<PublicationPlace> dropped(plan.places.begin(), plan.places.end());
    std::erase_if(published.edges, [&](const Edge& edge) { return dropped.contains(PlaceOf(edge)); });
    EXPECT_TRUE(CheapestRoute(published.edges, 0, newest));
    EXPECT_TRUE(CheapestRoute(published.edges, newest / 2, newest));
    for (uint64_t version = newest + 1 - policy.version_count; version < newest; ++version) {
      EXPECT_TRUE(CheapestRoute(published.edges, version, newest, ObjectLimit(newest - version))) << version;
    }
  }
}

TEST(Retention, KeepsTheWaysThroughAnOlderVersionThatATrainerWentBackTo) {
  // 0 ... 100, then 101 from 20, then on to 300.
  std::vector<uint64_t> committed(301);
  std::iota(committed.begin(), committed.end(), 0);
  std::vector<Edge> edges;
  for (uint64_t version = 1; version <= 300; ++version)
    edges.push_back(MakeEdge(version == 101 ? 20 : version - 1, version, 10));
  RetentionPolicy policy;
  policy.version_count = 230;
  const RetentionPlan plan = PlanRetention(committed, edges, {}, {}, /*resume_window=*/1, policy);
  EXPECT_TRUE(plan.places.empty());  // version 71 still gets to 300, by 20
  policy.version_count = 100;
  const RetentionPlan less = PlanRetention(committed, edges, {}, {}, /*resume_window=*/1, policy);
  EXPECT_EQ(less.places.size(), 80U);  // 20 -> 21 ... 99 -> 100
}

TEST(Retention, DropsNothingIfNothingLeadsToTheNewest) {
  const std::vector<uint64_t> committed = {0, 1, 2, 3};
  const std::vector<Edge> edges = {MakeEdge(0, 1, 1), MakeEdge(2, 3, 1)};
  RetentionPolicy policy;
  policy.version_count = 1;
  const RetentionPlan plan = PlanRetention(committed, edges, {}, {}, /*resume_window=*/0, policy);
  EXPECT_TRUE(plan.places.empty() && plan.anchors.empty());
}

}  // namespace
}  // namespace xorbit
