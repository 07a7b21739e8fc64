// A living stream under random faults: two trainer ranks, a lone sampler and a pair, now and then a rival trainer and a
// collector, all of them processes around a store in a folder. `fault_campaign --faults 2000 --seed 1`;
// docs/design/receiving.md has a table.
//
// After each fault the world goes on. Every engine compares every byte whenever it is made to serve; every decision that
// anybody sees is remembered; every ten faults all must be well again within a deadline. Exit code 1 if anything was not.
#include <CLI/CLI.hpp>
#include <csignal>
#include <cstdio>
#include <thread>

#include "base/steady_clock.h"
#include "fault_campaign/world.h"

namespace xorbit::fault_campaign {
namespace {

using std::chrono::milliseconds;

enum class Kind {
  kKillTrainer,
  kKillSampler,
  kStall,
  kCut,
  kFlip,
  kCohortCut,
  kCohortFlip,
  kReadFails,
  kReadFlips,
  kReadCut,
  kWriteFails,
  kReplyLost,
  kWrittenLate,
  kDiskFull,
  kClockJump,
  kRival,
  kPowerCut,
  kCount
};

struct KindInfo {
  std::string_view name;
  uint64_t weight;
  StoreFault fault = StoreFault::kNone;
};
constexpr std::array<KindInfo, static_cast<size_t>(Kind::kCount)> kKinds = {{
    {"trainer rank killed (kill -9)", 12},
    {"sampler killed (kill -9)", 12},
    {"process stalled, then goes on", 5},
    {"store object cut", 7},
    {"store object flipped", 9},
    {"cohort object cut", 2},
    {"cohort object flipped", 3},
    {"reads fail", 5, StoreFault::kReadFails},
    {"bits flipped in reads", 8, StoreFault::kReadFlips},
    {"reads cut short", 5, StoreFault::kReadCut},
    {"writes fail", 5, StoreFault::kWriteFails},
    {"replies lost", 6, StoreFault::kReplyLost},
    {"writes late, perhaps of a dead process", 6, StoreFault::kWrittenLate},
    {"disk full", 4},
    {"collector: clock jumps, killed", 5},
    {"second trainer, killed", 5},
    {"power cut: unsynced writes lost or reordered", 4},
}};

uint32_t PickActor(Random& random) {
  constexpr std::array kActors = {kTrainer0, kTrainer1, kLone, kPair0, kPair1};
  return kActors[random() % kActors.size()];
}

Kind PickKind(Random& random) {
  uint64_t total = 0;
  for (const KindInfo& kind : kKinds) total += kind.weight;
  uint64_t left = random() % total;
  size_t kind = 0;
  while (left >= kKinds[kind].weight) left -= kKinds[kind++].weight;
  return static_cast<Kind>(kind);
}

// For a while; killed at a random moment of what it does.
void VisitOf(World& world, uint32_t actor, Random& random) {
  world.Start(actor);
  world.Tend(milliseconds(Between(random, 20, 120)));
  world.Kill(actor);
}

// Half of the time waits for the engine to stand still: the milliseconds in which weights change are few.
uint32_t AtABadMoment(World& world, uint32_t actor, Random& random) {
  const int64_t end = SteadyNs() + static_cast<int64_t>(random() % 2 * 50'000'000);
  while (world.seat(actor).serves != 0 && SteadyNs() < end) std::this_thread::sleep_for(std::chrono::microseconds(50));
  return actor;
}

// False if there was nothing to harm.
bool Inject(World& world, Kind kind, Random& random) {
  constexpr std::array kSamplers = {kLone, kPair0, kPair1};
  switch (kind) {
    case Kind::kKillTrainer:
      world.Kill(random() % 2 == 0 ? kTrainer0 : kTrainer1);
      return true;
    case Kind::kKillSampler:
      world.Kill(AtABadMoment(world, kSamplers[random() % kSamplers.size()], random));
      return true;
    case Kind::kStall:
      world.Stall(AtABadMoment(world, PickActor(random), random), milliseconds(Between(random, 20, 450)));
      return true;
    case Kind::kCut:
      return world.damage().Cut(random, world.store());
    case Kind::kFlip:
      return world.damage().Flip(random, world.store());
    case Kind::kCohortCut:
      return world.damage().Cut(random, world.cohort());
    case Kind::kCohortFlip:
      return world.damage().Flip(random, world.cohort());
    case Kind::kDiskFull:
      world.seat(PickActor(random)).disk_full_until_ns = SteadyNs() + static_cast<int64_t>(Between(random, 5, 150)) * 1'000'000;
      return true;
    case Kind::kClockJump: {
      constexpr uint64_t kDayNs = 86'400'000'000'000;
      Seat& collector = world.seat(kCollector);
      collector.clock_jump_ns = static_cast<int64_t>(Between(random, 0, 2 * kDayNs)) - int64_t{kDayNs};
      collector.fault = StoreFault::kReadFlips;  // what it takes for true it decides for all
      collector.fault_calls = random() % 2 == 0 ? 0 : Between(random, 1, 8);
      VisitOf(world, kCollector, random);
      return true;
    }
    case Kind::kRival:
      VisitOf(world, kRival, random);
      return true;
    case Kind::kPowerCut:
      world.CutPower();
      return true;
    default: {
      Seat& seat = world.seat(PickActor(random));
      seat.fault = kKinds[static_cast<size_t>(kind)].fault;
      seat.fault_calls = Between(random, 1, 4);
      return true;
    }
  }
}

struct Tally {
  std::array<uint64_t, kKinds.size()> faults{};
  uint64_t worlds = 0;
  uint64_t decisions = 0;
  uint64_t serves = 0;
  uint64_t reloads = 0;
  Verdict verdict;
};

void Print(const Tally& tally, uint64_t seed) {
  uint64_t total = 0;
  for (size_t i = 0; i < kKinds.size(); ++i) {
    std::printf("| %-44s | %6llu |\n", std::string(kKinds[i].name).c_str(), static_cast<unsigned long long>(tally.faults[i]));
    total += tally.faults[i];
  }
  const auto row = [](const char* name, uint64_t count) {
    std::printf("| %-44s | %6llu |\n", name, static_cast<unsigned long long>(count));
  };
  row("faults", total);
  row("worlds (model, stream, processes)", tally.worlds);
  row("versions decided", tally.decisions);
  row("times an engine was made to serve", tally.serves);
  row("samplers that asked for their checkpoint", tally.reloads);
  row("wrong bytes served", tally.verdict.wrong_bytes);
  row("versions lost", tally.verdict.lost_versions);
  row("hangs", tally.verdict.hangs);
  for (const std::string& reason : tally.verdict.reasons) std::printf("%s\n", reason.c_str());
  std::printf("seed %llu\n", static_cast<unsigned long long>(seed));
}

int Run(uint64_t fault_count, uint64_t seed) {
  std::printf("seed %llu\n", static_cast<unsigned long long>(seed));
  std::fflush(stdout);
  Random random(seed);
  Tally tally;
  Verdict& verdict = tally.verdict;
  for (uint64_t done = 0; done < fault_count && verdict.reasons.empty();) {
    World world(random, verdict);
    for (uint64_t i = 0; i < 40 && done < fault_count && !world.is_full() && verdict.reasons.empty(); ++i) {
      world.Tend(milliseconds(Between(random, 2, 40)));
      const Kind kind = PickKind(random);
      if (Inject(world, kind, random)) {
        ++tally.faults[static_cast<size_t>(kind)];
        ++done;
      }
      if (i % 10 == 9) world.Calm();
    }
    world.End();
    ++tally.worlds;
    tally.decisions += world.newest();
    tally.serves += world.board().serve_count;
    tally.reloads += world.reload_count();
  }
  Print(tally, seed);
  return verdict.reasons.empty() ? 0 : 1;
}

}  // namespace
}  // namespace xorbit::fault_campaign

int main(int argc, char** argv) {
  CLI::App app("Random faults around a living stream; prints what was counted. Exit code 1 if a promise was broken.");
  uint64_t fault_count = 100;
  uint64_t seed = 1;
  app.add_option("--faults", fault_count, "how many");
  app.add_option("--seed", seed, "what is random follows from it, but for when processes run");
  CLI11_PARSE(app, argc, argv);
  return xorbit::fault_campaign::Run(fault_count, seed);
}
