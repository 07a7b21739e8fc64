// One model, one stream, and the processes around it: started, killed, stalled, left without power, and started again.
#pragma once

#include <sys/types.h>

#include <array>
#include <functional>
#include <string>
#include <vector>

#include "base/temporary_folder.h"
#include "fault_campaign/damage.h"
#include "fault_campaign/judge.h"

namespace xorbit::fault_campaign {

// What a campaign must end without.
struct Verdict {
  uint64_t wrong_bytes = 0;
  uint64_t lost_versions = 0;
  uint64_t hangs = 0;
  std::vector<std::string> reasons;
};

class World {
 public:
  // Trainers and samplers run when this returns.
  World(Random& random, Verdict& verdict);
  ~World();
  World(const World&) = delete;
  World& operator=(const World&) = delete;

  Seat& seat(uint32_t actor) { return board_->seats[actor]; }
  const Board& board() const { return *board_; }
  const fs::path& store() const { return store_; }
  const fs::path& cohort() const { return cohort_; }
  Damage& damage() { return damage_; }
  bool is_alive(uint32_t actor) const { return children_[actor] != 0; }
  uint64_t reload_count() const { return reload_count_; }
  uint64_t newest() const;  // version decided, as far as anybody has seen
  bool is_full() const { return newest() + 20 >= kMaxVersions; }

  void Start(uint32_t actor);
  void Kill(uint32_t actor);  // -9
  void Stall(uint32_t actor, std::chrono::milliseconds time);
  // All processes end at once, and the disk keeps what it must and what it likes of what was not synced. A trainer and a
  // sampler run on until a random moment, as threads that record what they do.
  void CutPower();

  // Starts again who has ended, and notices who hangs, for this long.
  void Tend(std::chrono::milliseconds time);
  // Takes all faults back, and waits until the world goes on: a new version, and every sampler at least at the newest of now.
  void Calm();
  // Ends the world, and looks at what it leaves.
  void End();

 private:
  int LiveAs(uint32_t actor, uint64_t seed);
  void RecordUntilPowerCut(uint64_t seed, const fs::path& after);
  void AwaitLateWriters();
  bool WaitUntil(std::chrono::milliseconds limit, const std::function<bool()>& done);
  void Hangs(const std::string& what);

  Random& random_;
  Verdict& verdict_;
  Model model_;
  TemporaryFolder folder_;
  fs::path store_ = folder_ / "store-0";
  fs::path cohort_ = folder_ / "cohort-0";
  uint64_t cut_count_ = 0;
  Board* board_ = nullptr;
  std::array<pid_t, kActorCount> children_{};
  Damage damage_;
  uint64_t reload_count_ = 0;
};

}  // namespace xorbit::fault_campaign
