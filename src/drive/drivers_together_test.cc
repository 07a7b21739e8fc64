// Several drivers at the same engines, as when an orchestrator is started again while the old one still runs: thousands of
// random interleavings of their calls, with lost replies, drivers that die or are stopped, and engines that do. None may hurt
// another.
#include <gtest/gtest.h>

#include <memory>
#include <optional>
#include <random>
#include <set>

#include "base/testing/seed.h"
#include "drive/testing/model_engine.h"

namespace xorbit {
namespace {

struct Party {
  std::vector<uint64_t> targets;  // one a driver
  std::vector<bool> is_strict;    // the same
  bool wants_newest = false;      // targets are what each one takes for the newest at its start
  bool may_die = false;           // all but the first
  bool may_be_stopped = false;    // the same
  bool may_lose_engines = false;
  bool is_uniform = true;  // no two engines with open gates ever serve different versions
};

class Meeting {
 public:
  Meeting(uint64_t seed, const Party& party)
      : random_(seed), party_(party), engines_(2 + random_() % 3), may_be_fenced_(party.may_lose_engines) {
    for (ModelEngine& engine : engines_) {
      engine.prepare_ms = static_cast<int64_t>(random_() % 200);
      engine.lease_ms = kLeaseMs;
      engine.Restart(kStart);
    }
    for (size_t i = 0; i < party.targets.size(); ++i) {
      drivers_.emplace_back();
      drivers_[i].flights.resize(engines_.size());
      drivers_[i].begins_ms = static_cast<int64_t>(random_() % 300);
      drivers_[i].target = party.targets[i];
    }
  }

  void Run() {
    for (int step = 0; Step(); ++step) {
      ASSERT_LT(step, 1'000'000) << "it never ends";
      if (testing::Test::HasFailure()) return;
    }
    for (const Driver& driver : drivers_) CheckEnd(driver);
  }

  // With no trouble any more, whatever was before: one driver brings all to one version.
  void RunLast() {
    party_ = {{5}, {true}};
    drivers_.clear();
    drivers_.emplace_back();
    drivers_[0].flights.resize(engines_.size());
    drivers_[0].target = 5;
    for (ModelEngine& engine : engines_) {
      if (engine.is_dead) engine.Restart(kStart);
    }
    party_.is_uniform = false;
    Run();
  }

 private:
  static constexpr uint64_t kStart = 1;
  static constexpr int64_t kLeaseMs = 3'000;

  struct Flight {
    std::optional<DriveOrder> order;
    std::optional<EngineReply> reply;
  };
  struct Driver {
    std::unique_ptr<DrivenUpdate> update;
    std::vector<Flight> flights;
    int64_t begins_ms = 0;
    uint64_t target = 0;
    bool is_dead = false;
    bool is_stopped = false;
  };

  bool Chance(uint64_t in) { return random_() % in == 0; }

  void Begin(size_t index) {
    DriveRules rules = ModelRules(party_.is_strict[index]);
    rules.silence_ms = 2'000;
    rules.prepare_ms = 60'000;
    rules.apply_ms = 10'000;
    rules.lease_ms = kLeaseMs;
    rules.wants_newest = party_.wants_newest;
    drivers_[index].update = std::make_unique<DrivenUpdate>(
        rules, DrivenStream{std::string(kModelStream), std::string(kModelBase)}, ModelTarget(drivers_[index].target),
        SessionIdOf(party_.is_strict[index], std::to_string(++session_count_) + "-x"), std::vector<bool>(engines_.size(), true),
        now_ms_);
  }

  // Something that some driver or engine does; false if there is nothing left.
  bool Step() {
    now_ms_ += static_cast<int64_t>(random_() % 4);
    for (ModelEngine& engine : engines_) {
      engine.Tick(now_ms_);
      if (party_.may_lose_engines && Chance(3'000)) engine.is_dead = true;
      if (engine.is_dead && Chance(500)) engine.Restart(kStart);
    }
    CheckEngines();
    bool is_left = false;
    for (size_t i = 0; i < drivers_.size(); ++i) {
      Driver& driver = drivers_[i];
      if (driver.is_dead) continue;
      if (driver.update == nullptr) {
        if (now_ms_ >= driver.begins_ms) Begin(i);
        is_left = true;
        continue;
      }
      if (i > 0 && party_.may_die && Chance(400)) driver.is_dead = true;
      if (i > 0 && party_.may_be_stopped && !driver.is_stopped && Chance(400)) {
        driver.is_stopped = true;
        driver.update->GiveUp("stopped", now_ms_);
      }
      is_left |= !IsAtEnd(driver) || BeginsAnew(i);
    }
    const size_t who = random_() % drivers_.size();
    if (!drivers_[who].is_dead && drivers_[who].update != nullptr) Turn(&drivers_[who], random_() % engines_.size());
    return is_left;
  }

  static bool IsAtEnd(const Driver& driver) {
    return std::ranges::none_of(driver.flights, [](const Flight& flight) { return flight.order.has_value(); }) &&
           std::ranges::all_of(driver.update->engines(), [](const DrivenEngine& engine) { return IsOver(engine.standing); });
  }

  // A driver that wants the newest looks for it again where another is ahead.
  bool BeginsAnew(size_t index) {
    Driver& driver = drivers_[index];
    if (driver.is_stopped || !driver.update->newer_version()) return false;
    EXPECT_GT(*driver.update->newer_version(), driver.target);
    driver.target = *driver.update->newer_version();
    Begin(index);
    return true;
  }

  void Turn(Driver* driver, size_t index) {
    Flight& flight = driver->flights[index];
    if (!flight.order) {
      const DriveOrder order = driver->update->Next(index, now_ms_);
      if (order.step != DriveStep::kOver && order.step != DriveStep::kWait) flight.order = order;
    } else if (!flight.reply) {
      const bool is_lost = Chance(20);
      if (!is_lost || Chance(2)) flight.reply = engines_[index].Answer(*flight.order);
      if (is_lost) flight.reply = EngineReply{false, false, "no answer", std::nullopt, 0};
    } else {
      driver->update->NoteReply(index, flight.order->step, *flight.reply, now_ms_);
      flight = Flight();
    }
  }

  void CheckEngines() {
    std::set<uint64_t> served;
    for (size_t i = 0; i < engines_.size(); ++i) {
      const ModelEngine& engine = engines_[i];
      if (!engine.is_dead && !engine.stands_still()) served.insert(engine.applied);
      EXPECT_FALSE(engine.is_paused && !may_be_fenced_) << "fenced: engine " << i;
      heights_.resize(engines_.size(), kStart);
      EXPECT_FALSE(party_.wants_newest && engine.applied < heights_[i]) << "taken back: engine " << i;
      heights_[i] = engine.applied;
    }
    EXPECT_FALSE(party_.is_uniform && served.size() > 1) << "two versions are served";
  }

  void CheckEnd(const Driver& driver) {
    if (driver.is_dead || driver.is_stopped || party_.may_lose_engines) return;
    EXPECT_EQ(driver.update->abort_reason(), "");
    for (const DrivenEngine& engine : driver.update->engines()) {
      EXPECT_EQ(engine.standing, Standing::kCurrent) << NameOf(engine.standing) << ": " << engine.why;
      EXPECT_EQ(engine.applied_version, driver.target);
    }
  }

  std::mt19937_64 random_;
  Party party_;
  std::vector<ModelEngine> engines_;
  std::vector<Driver> drivers_;
  std::vector<uint64_t> heights_;
  bool may_be_fenced_;
  int64_t now_ms_ = 1'000;
  int session_count_ = 0;
};

void Meet(const Party& party, int count) {
  const uint64_t seed = TestSeed();
  for (int i = 0; i < count && !testing::Test::HasFailure(); ++i) {
    SCOPED_TRACE("seed " + std::to_string(seed + i));
    Meeting meeting(seed + i, party);
    meeting.Run();
    if (!testing::Test::HasFailure()) meeting.RunLast();
  }
}

TEST(DriversTogetherTest, OfOneTarget) {
  Meet({{3, 3}, {true, true}}, 2'000);
  Meet({{3, 3, 3}, {true, true, true}}, 1'000);
}

TEST(DriversTogetherTest, OfDifferentTargets) {
  Meet({{3, 4}, {true, true}}, 2'000);
  Meet({{4, 3, 2}, {true, true, true}}, 1'000);
  Meet({{3, 3, 4}, {true, true, true}}, 1'000);
}

TEST(DriversTogetherTest, ThatWantTheNewest) {
  Meet({.targets = {3, 4}, .is_strict = {true, true}, .wants_newest = true}, 2'000);
  Meet({.targets = {2, 3, 4}, .is_strict = {true, true, true}, .wants_newest = true}, 1'000);
  Meet({.targets = {3, 4}, .is_strict = {false, false}, .wants_newest = true, .is_uniform = false}, 1'000);
}

TEST(DriversTogetherTest, ThatGoEachEngineByItself) {
  Meet({.targets = {3, 3}, .is_strict = {false, false}, .is_uniform = false}, 1'000);
  Meet({.targets = {3, 4}, .is_strict = {false, false}, .is_uniform = false}, 1'000);
  Meet({.targets = {3, 3, 3}, .is_strict = {true, true, false}, .is_uniform = false}, 1'000);
}

// The old one ends by the rules while the new one is at work: nobody sees two versions even then.
TEST(DriversTogetherTest, OfWhichTheOldOneIsStopped) {
  Meet({.targets = {3, 3}, .is_strict = {true, true}, .may_be_stopped = true}, 2'000);
  Meet({.targets = {4, 3, 4}, .is_strict = {true, true, true}, .may_be_stopped = true}, 1'000);
}

TEST(DriversTogetherTest, OfWhichSomeDie) {
  Meet({.targets = {3, 3}, .is_strict = {true, true}, .may_die = true, .is_uniform = false}, 1'000);
  Meet({.targets = {4, 3, 3}, .is_strict = {true, true, true}, .may_die = true, .is_uniform = false}, 1'000);
  Meet({.targets = {2, 3, 3}, .is_strict = {true, true, true}, .may_die = true, .is_uniform = false}, 1'000);
  Meet({.targets = {3, 4}, .is_strict = {false, false}, .may_die = true, .is_uniform = false}, 1'000);
}

TEST(DriversTogetherTest, WhileEnginesDie) {
  Party party = {.targets = {3, 3}, .is_strict = {true, true}, .may_die = true, .may_lose_engines = true, .is_uniform = false};
  Meet(party, 1'000);
  party = {
      .targets = {3, 4, 4}, .is_strict = {true, true, false}, .may_die = true, .may_lose_engines = true, .is_uniform = false};
  Meet(party, 1'000);
}

}  // namespace
}  // namespace xorbit
