// Processes by fork, signals and waits. The board outlives whoever is killed, so what they have seen is not lost with them.
#include "fault_campaign/world.h"

#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <thread>

#include "base/steady_clock.h"
#include "base/testing/recording_file_ops.h"
#include "fault_campaign/actors.h"
#include "store/stream.h"
#include "transport/folder_store.h"

namespace xorbit::fault_campaign {
namespace {

using std::chrono::milliseconds;

constexpr milliseconds kStepDeadline{20'000};  // of a trainer's, sampler's or collector's step
constexpr milliseconds kCalmDeadline{30'000};  // for the world to go on once nothing is wrong any more
constexpr milliseconds kLateWriterLimit{5'000};
constexpr std::array kAlways = {kTrainer0, kTrainer1, kLone, kPair0, kPair1};

}  // namespace

World::World(Random& random, Verdict& verdict) : random_(random), verdict_(verdict), model_(random) {
  void* const memory = ::mmap(nullptr, sizeof(Board), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) std::abort();
  board_ = new (memory) Board{};  // tidy-allow: placement into memory that fork shares
  const auto store = OpenFolderStore(PosixFileOps(), store_);
  if (!store.ok() || !Stream::Create(**store, model_.info(), model_.layout()).ok()) std::abort();
  for (const uint32_t actor : kAlways) Start(actor);
}

World::~World() {
  for (uint32_t actor = 0; actor < kActorCount; ++actor) Kill(actor);
  AwaitLateWriters();
  ::munmap(board_, sizeof(Board));
}

uint64_t World::newest() const {
  for (uint64_t version = kMaxVersions; version-- > 0;) {
    if (board_->decisions[version] != 0) return version;
  }
  return 0;
}

int World::LiveAs(uint32_t actor, uint64_t seed) { return Live({model_, *board_, actor, store_, cohort_, seed}); }

void World::Start(uint32_t actor) {
  if (children_[actor] != 0) return;
  const uint64_t seed = random_();
  const pid_t child = ::fork();
  if (child == 0) ::_exit(LiveAs(actor, seed));
  if (child < 0) std::abort();
  children_[actor] = child;
}

void World::Kill(uint32_t actor) {
  if (children_[actor] == 0) return;
  ::kill(children_[actor], SIGKILL);
  ::waitpid(children_[actor], nullptr, 0);
  children_[actor] = 0;
  seat(actor).serves = 0;
  seat(actor).step_began_ns = 0;
}

void World::Stall(uint32_t actor, milliseconds time) {
  if (children_[actor] == 0) return;
  ::kill(children_[actor], SIGSTOP);
  Tend(time);
  if (children_[actor] != 0) ::kill(children_[actor], SIGCONT);
}

void World::Hangs(const std::string& what) {
  ++verdict_.hangs;
  verdict_.reasons.push_back("hang: " + what);
}

void World::Tend(milliseconds time) {
  const int64_t end = SteadyNs() + time.count() * 1'000'000;
  do {
    for (uint32_t actor = 0; actor < kActorCount; ++actor) {
      int state = 0;
      if (children_[actor] == 0 || ::waitpid(children_[actor], &state, WNOHANG) == 0) {
        const int64_t began = seat(actor).step_began_ns;
        if (children_[actor] == 0 || began == 0 || SteadyNs() - began < kStepDeadline.count() * 1'000'000) continue;
        Hangs(std::string(kActorNames[actor]) + ", last error: " + seat(actor).last_error.data());
        Kill(actor);
      } else {
        children_[actor] = 0;
        seat(actor).serves = 0;
        seat(actor).step_began_ns = 0;
        if (WIFEXITED(state) && WEXITSTATUS(state) == kNeedsReload) {
          ++reload_count_;
        } else {
          verdict_.reasons.push_back(std::string(kActorNames[actor]) + " ended with state " + std::to_string(state));
          ++verdict_.hangs;
        }
      }
      if (actor != kRival && actor != kCollector) Start(actor);
    }
    std::this_thread::sleep_for(milliseconds(2));
  } while (SteadyNs() < end);
}

// An actor that was killed between counting its late writer and starting it has left a count that nobody takes back; a writer
// that lives is done in a small part of the time that is waited.
void World::AwaitLateWriters() {
  const int64_t end = SteadyNs() + kLateWriterLimit.count() * 1'000'000;
  while (board_->late_writer_count > 0 && SteadyNs() < end) std::this_thread::sleep_for(milliseconds(1));
  board_->late_writer_count = 0;
}

bool World::WaitUntil(milliseconds limit, const std::function<bool()>& done) {
  const int64_t end = SteadyNs() + limit.count() * 1'000'000;
  while (!done()) {
    if (SteadyNs() > end) return false;
    Tend(milliseconds(5));
  }
  return true;
}

void World::Calm() {
  damage_.HealAll();
  for (Seat& seat : board_->seats) {
    seat.fault_calls = 0;
    seat.fault = StoreFault::kNone;
    seat.disk_full_until_ns = 0;
    seat.clock_jump_ns = 0;
  }
  for (const uint32_t actor : kAlways) Start(actor);
  const uint64_t now = newest();
  std::string late = "no new version after " + std::to_string(now);
  const bool goes_on = WaitUntil(kCalmDeadline, [&] {
    if (newest() == now) return false;
    for (const uint32_t actor : {kLone, kPair0, kPair1}) {
      late = std::string(kActorNames[actor]) + " does not arrive";
      if (seat(actor).serves < now + 1) return false;
    }
    return true;
  });
  if (goes_on) return;
  for (uint32_t actor = 0; actor < kActorCount; ++actor) {
    late += std::string("; ") + std::string(kActorNames[actor]) + " at " + std::to_string(seat(actor).serves) + ": " +
            seat(actor).last_error.data();
  }
  Hangs("after all faults were taken back: " + late);
}

void World::RecordUntilPowerCut(uint64_t seed, const fs::path& after) {
  Random random(seed);
  RecordingFileOps ops(store_);
  const uint64_t cut = Between(random, 5, 400);
  ops.FailCalls(cut, RecordingFileOps::kNever);
  const int64_t end = SteadyNs() + 120'000'000;
  {
    std::vector<std::jthread> threads;
    for (const uint32_t actor : {kTrainer0, kTrainer1, kLone}) {
      const Place place{model_, *board_, actor, store_, cohort_, random(), &ops, [end] { return SteadyNs() < end; }};
      threads.emplace_back([place] { static_cast<void>(Live(place)); });
    }
  }
  ops.BuildAfterPowerCut(std::min(cut, ops.call_count()), random, after);
}

void World::CutPower() {
  damage_.HealAll();
  for (uint32_t actor = 0; actor < kActorCount; ++actor) Kill(actor);
  AwaitLateWriters();
  for (Seat& seat : board_->seats) seat.fault_calls = 0;
  const std::string number = std::to_string(++cut_count_);
  const fs::path after = folder_ / ("store-" + number);
  const uint64_t seed = random_();
  const pid_t child = ::fork();
  if (child == 0) {
    RecordUntilPowerCut(seed, after);
    ::_exit(0);
  }
  int state = 0;
  ::waitpid(child, &state, 0);
  if (state != 0) Hangs("recording for a power cut ended with state " + std::to_string(state));
  for (Seat& seat : board_->seats) {
    seat.serves = 0;
    seat.step_began_ns = 0;
  }
  fs::remove_all(store_);
  store_ = after;
  cohort_ = folder_ / ("cohort-" + number);  // was in memory
  for (const std::string& lost : LostDecisions(*board_, store_)) {
    ++verdict_.lost_versions;
    verdict_.reasons.push_back("after a power cut: " + lost);
  }
  for (const uint32_t actor : kAlways) Start(actor);
}

void World::End() {
  Calm();
  for (uint32_t actor = 0; actor < kActorCount; ++actor) Kill(actor);
  AwaitLateWriters();
  verdict_.wrong_bytes += board_->wrong_bytes_count + board_->disagreement_count;
  if (board_->wrong_bytes_count > 0) verdict_.reasons.emplace_back("an engine was made to serve wrong bytes");
  if (board_->disagreement_count > 0) verdict_.reasons.emplace_back("the pair served two versions");
  verdict_.lost_versions += board_->changed_count;
  if (board_->changed_count > 0) verdict_.reasons.emplace_back("somebody acted on another decision than the one seen before");
  for (const auto& found : {LostDecisions(*board_, store_), UnreadableVersions(model_, store_)}) {
    verdict_.lost_versions += found.size();
    verdict_.reasons.insert(verdict_.reasons.end(), found.begin(), found.end());
  }
}

}  // namespace xorbit::fault_campaign
