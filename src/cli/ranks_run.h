// One run of `xorbit bench --ranks`, as all its processes know it.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string_view>

#include "base/file.h"
#include "cli/ranks_board.h"
#include "cli/ranks_model.h"
#include "store/stream.h"

namespace xorbit {

// Where a sampler rank kills itself, in the middle of an update.
enum class Death : uint8_t {
  kPrepared,  // before it votes: no rank is updated
  kGone,      // it has voted, and all go: the others stand still, and serve the old version again
  kApplying,  // while it applies: the others have applied, and take it back
};
inline constexpr std::array kDeaths = {Death::kPrepared, Death::kGone, Death::kApplying};

struct RanksRun {
  RanksModel model;
  uint32_t engine_count = 1;  // each a cohort of its own
  uint32_t rank_count = 1;    // of an engine
  uint32_t trainer_count = 1;
  bool on_devices = false;
  uint32_t device_count = 1;  // used
  uint32_t round_count = 5;   // versions 1 to round_count are measured
  bool with_kills = false;    // the update to round_count + 1 + i is met by kDeaths[i]
  fs::path store;             // the far store, a folder
  fs::path meeting_place;     // of the cohort, in memory
  fs::path cache;             // of this host
  Board* board = nullptr;

  uint32_t sampler_count() const { return engine_count * rank_count; }  // engine by engine
  uint64_t newest() const { return round_count + (with_kills ? kDeaths.size() : 0); }
  // Where rank `index` lies; -1: in host memory.
  int DeviceOf(uint32_t index) const { return on_devices ? static_cast<int>(index % device_count) : -1; }
  static bool IsChanged(uint64_t version) { return version % 2 == 1; }
  std::optional<Death> DeathAt(uint64_t version) const {
    if (version <= round_count || version > newest()) return std::nullopt;
    return kDeaths[version - round_count - 1];
  }
  // Another rank of the first engine each time.
  uint32_t VictimAt(uint64_t version) const { return static_cast<uint32_t>(version % rank_count); }
};

inline constexpr std::string_view kRanksStream = "ranks";

// The bodies of the processes: each fills memory, does its part to the newest version, and writes down on the board what it
// measured. An error is one line.
Status RunTrainer(const RanksRun& run, uint32_t rank);
Status RunSampler(const RanksRun& run, uint32_t index, uint32_t life);

}  // namespace xorbit
